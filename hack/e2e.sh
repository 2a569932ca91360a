#!/usr/bin/env bash
# Runs the end-to-end tests in each of the places for boxes that are named, one
# after the other, and shows all of them in one table:
#
#   hack/e2e.sh docker podman podman-rootless gvisor gvisor-rootless
#
# E2E_RUN is the pattern of the tests to run; empty runs all.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

main() {
  local place results=() reports
  [ $# -gt 0 ] || die "usage: e2e.sh PLACE..."
  cd "$(dirname "$0")/.."
  reports=$PWD/.test
  mkdir -p "$reports"
  for place; do
    say "$place …"
    # A failure shows in the table, with those of the places to come.
    BOXWRIGHT_TEST_BACKEND=$place BOXWRIGHT_REQUIRE=${BOXWRIGHT_REQUIRE-} \
      go test -count=1 -timeout 20m -run "${E2E_RUN-}" -json ./e2e >"$reports/$place.json" 2>&1 || true
    results+=("$place=$reports/$place.json")
  done
  go run ./hack/report "${results[@]}"
}

main "$@"
