#!/usr/bin/env bash
# Sets up every place for boxes that the tests use, with their images, and
# prints the variables that lead the tests there:
#
#   hack/engines.sh >FILE

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

main() {
  local here
  here=$(cd "$(dirname "$0")" && pwd)
  apt_install bubblewrap util-linux # for plugins/example
  "$here/docker-up.sh" runsc
  "$here/base-image.sh"
  "$here/test-images.sh"
  "$here/podman-up.sh"
  "$here/podman-up.sh" rootless
  "$here/runsc.sh"
  "$here/share-images.sh" podman rootless
}

main
