#!/usr/bin/env bash
# Makes the small images that the tests run against:
#   boxwright-test/empty:1         an empty /etc and /tmp; no shell, no Python
#   boxwright-test/busybox:1       a shell and the usual commands; no Python
#   boxwright-test/preinstalled:1  the base image with six and numpy installed
#   boxwright-test/matplotlib:1    the base image with matplotlib installed
#   boxwright-test/node:1          the base image with Node.js

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

PACKAGES=(six==1.17.0 numpy==2.3.5)
FIGURES=(matplotlib==3.10.7)

main() {
  docker_answers || die "no Docker daemon answers; run hack/docker-up.sh first"
  lock test-images
  scratch=$(mktemp -d)
  container=
  trap cleanup EXIT
  make_image boxwright-test/empty:1 empty
  make_image boxwright-test/busybox:1 busybox
  make_image boxwright-test/preinstalled:1 preinstalled
  make_image boxwright-test/matplotlib:1 matplotlib
  make_image boxwright-test/node:1 with_node
}

cleanup() {
  remove_container
  rm -rf "$scratch"
}

remove_container() {
  [ -z "$container" ] || docker rm -f "$container" >/dev/null
  container=
}

# make_image IMAGE FUNCTION calls FUNCTION with IMAGE and an empty folder,
# unless IMAGE is there already.
make_image() {
  if has_image "$1"; then
    return
  fi
  say "making $1"
  mkdir "$scratch/$2"
  "$2" "$1" "$scratch/$2"
}

empty() {
  add_folders "$2"
  import_root "$1" "$2"
}

busybox() {
  local binary
  binary=$(busybox_binary)
  add_folders "$2"
  mkdir "$2/bin"
  cp "$binary" "$2/bin/busybox"
  "$binary" --list | while read -r name; do
    [ "$name" = busybox ] || ln -s busybox "$2/bin/$name"
  done
  import_root "$1" "$2" --change 'CMD ["sh"]'
}

preinstalled() { with_packages "$1" "${PACKAGES[@]}"; }

matplotlib() { with_packages "$1" "${FIGURES[@]}"; }

# with_packages IMAGE PACKAGE... hands the environment to exec, not to run:
# commit would keep it.
with_packages() {
  local image=$1 bundle
  shift
  has_image "$BASE_IMAGE" || die "no image $BASE_IMAGE; run hack/base-image.sh first"
  container=$(docker run -d "$BASE_IMAGE" sleep 600)
  bundle=$(ca_bundle)
  if [ -n "$bundle" ]; then
    docker cp -L "$bundle" "$container:/tmp/ca.crt" >/dev/null
  fi
  docker exec -e PIP_INDEX_URL -e HTTPS_PROXY -e https_proxy -e NO_PROXY -e no_proxy \
    -e "PIP_CERT=${bundle:+/tmp/ca.crt}" "$container" \
    pip install --quiet --no-cache-dir --root-user-action=ignore --break-system-packages "$@" >&2
  docker exec "$container" rm -f /tmp/ca.crt
  docker commit --change 'CMD ["python3"]' "$container" "$image" >/dev/null
  remove_container
}

with_node() {
  has_image "$BASE_IMAGE" || die "no image $BASE_IMAGE; run hack/base-image.sh first"
  container=$(docker create "$BASE_IMAGE")
  docker cp -L "$(node_binary)" "$container:/usr/local/bin/node" >/dev/null
  docker commit --change 'CMD ["node"]' "$container" "$1" >/dev/null
  remove_container
}

add_folders() {
  chmod 755 "$1"
  mkdir -p "$1/etc"
  mkdir -m 1777 "$1/tmp"
}

# import_root IMAGE FOLDER [OPTION...]
import_root() {
  local image=$1 folder=$2
  shift 2
  tar -C "$folder" --numeric-owner --owner=0 --group=0 -c . | docker import "$@" - "$image" >/dev/null
}

# busybox_binary prints the path of a static busybox, kept in the cache. The
# package is unpacked, not installed: it would replace the machine's own.
busybox_binary() {
  local cached unpacked
  cached=$(cache_dir)/busybox
  if [ ! -x "$cached" ]; then
    unpacked=$scratch/busybox-static
    mkdir "$unpacked"
    (
      cd "$unpacked"
      apt_download busybox-static
      dpkg-deb -x busybox-static_*.deb .
    )
    cp "$unpacked/bin/busybox" "$cached.new"
    mv "$cached.new" "$cached"
  fi
  printf '%s\n' "$cached"
}

apt_download() {
  apt-get -qq download "$1" >/dev/null 2>&1 && return
  apt-get -qq update >&2
  apt-get -qq download "$1" >&2
}

main
