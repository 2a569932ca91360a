#!/usr/bin/env bash
# Runs the end-to-end tests in each of the places for boxes that are named, and
# shows all of them in one table. E2E_LANES is how many places at a time: more
# than one is faster, but engines on a small machine then answer late at times.
#
#   hack/e2e.sh docker podman podman-rootless gvisor gvisor-rootless
#
# E2E_RUN is the pattern of the tests to run; empty runs all.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

LANES=${E2E_LANES:-1}

main() {
  local place lane results=()
  [ $# -gt 0 ] || die "usage: e2e.sh PLACE..."
  cd "$(dirname "$0")/.."
  mkdir -p .test
  go test -c -o .test/e2e.test ./e2e
  export BOXWRIGHT_TEST_PLACES="$*" # what is the same in all of them runs in one
  for ((lane = 0; lane < LANES; lane++)); do
    lane "$lane" "$@" &
  done
  wait
  for place; do results+=("$place=.test/$place.json"); done
  go run ./hack/report "${results[@]}"
}

# lane N PLACE... runs every LANES-th of the places.
lane() {
  local n=$1 place i=0
  shift
  for place; do
    if ((i++ % LANES == n)); then
      say "$place …"
      # A failure shows in the table, with those of the places to come.
      (cd e2e && BOXWRIGHT_TEST_BACKEND=$place BOXWRIGHT_REQUIRE=${BOXWRIGHT_REQUIRE-} \
        go tool test2json -t -p e2e ../.test/e2e.test -test.v=test2json -test.timeout 20m -test.run "${E2E_RUN-}" >"../.test/$place.json" 2>&1) || true
    fi
  done
}

main "$@"
