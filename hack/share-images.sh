#!/usr/bin/env bash
# Gives the images of the tests, which hack/base-image.sh and hack/test-images.sh
# made in Docker, to the other places for boxes, and prints the archive of all:
# BOXWRIGHT_TEST_IMAGES=/…
#
#   hack/share-images.sh [podman] [rootless]

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

IMAGES=("$BASE_IMAGE" boxwright-test/{empty,busybox,preinstalled,node}:1)

main() {
  local archive place
  docker_answers || die "no Docker daemon answers; run hack/docker-up.sh first"
  lock share-images
  archive=$(make_archive)
  for place; do
    case $place in
    podman) share podman_rootful "$archive" ;;
    rootless) share podman_rootless "$archive" ;;
    *) die "usage: share-images.sh [podman] [rootless]" ;;
    esac
  done
  printf 'BOXWRIGHT_TEST_IMAGES=%s\n' "$archive"
}

# make_archive prints the path of an archive of the images as they are now.
make_archive() {
  local ids archive
  ids=$(docker image inspect --format '{{.Id}}' "${IMAGES[@]}") || die "run hack/base-image.sh and hack/test-images.sh first"
  archive=$(cache_dir)/images-$(sha256sum <<<"$ids" | cut -c1-16).tar
  if [ ! -e "$archive" ]; then
    say "saving the images of the tests"
    rm -f "$(cache_dir)"/images-*.tar
    docker save -o "$archive.new" "${IMAGES[@]}"
    chmod 644 "$archive.new" && mv "$archive.new" "$archive"
  fi
  printf '%s\n' "$archive"
}

# share ENGINE ARCHIVE loads what ENGINE does not have as it is in Docker.
share() {
  local image
  for image in "${IMAGES[@]}"; do
    # What is loaded without a registry's name is called localhost/….
    [ "$("$1" image inspect --format '{{.Id}}' "localhost/$image" 2>/dev/null)" = "$(docker_id "$image")" ] && continue
    say "loading the images of the tests (${1/_/, })"
    "$1" load --quiet <"$2" >/dev/null
    return
  done
}

docker_id() { docker image inspect --format '{{.Id}}' "$1" | cut -d: -f2; }

podman_rootful() { podman "$@"; }

podman_rootless() { as_test_user podman "$@"; }

main "$@"
