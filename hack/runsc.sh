#!/usr/bin/env bash
# Makes gVisor's runsc, a current one, and prints where: BOXWRIGHT_RUNSC=/…
# It is built from source once (a few minutes) and kept in the cache; Debian's
# package is years old.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

RUNSC=gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237

main() {
  local dir
  dir=$(cache_dir)/runsc-${RUNSC##*@}
  lock runsc
  if [ ! -x "$dir/runsc" ]; then
    have go || die "needs Go to build runsc"
    say "building runsc (a few minutes, once)"
    mkdir -p "$dir"
    CGO_ENABLED=0 GOFLAGS='' GOBIN=$dir go install -trimpath -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=${RUNSC##*@}" "$RUNSC" 9>&- >&2
  fi
  printf 'BOXWRIGHT_RUNSC=%s/runsc\n' "$dir"
}

main
