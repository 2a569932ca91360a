#!/usr/bin/env bash
# Makes the default image of the tests available in Docker: pulled where a
# registry answers, else a stand-in with the same Python built from Debian
# packages. The stand-in is kept in the cache, so making it again takes seconds.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

main() {
  if has_image "$BASE_IMAGE"; then
    return
  fi
  docker_answers || die "no Docker daemon answers; run hack/docker-up.sh first"
  lock base-image
  if has_image "$BASE_IMAGE"; then
    return
  fi

  local tar
  tar=$(cache_dir)/base-image.tar
  if [ ! -e "$tar" ]; then
    say "pulling $BASE_IMAGE"
    if timeout 60 docker pull -q "$BASE_IMAGE" >/dev/null 2>&1; then
      return
    fi
    build "$tar"
  fi
  say "importing the stand-in for $BASE_IMAGE"
  docker import --message "stand-in from Debian packages" \
    --change 'CMD ["python3"]' --change 'ENV LANG=C.UTF-8' \
    "$tar" "$BASE_IMAGE" >/dev/null
}

# build TAR writes the root folder of a minimal Debian with Python to TAR.
build() {
  [ "$(id -u)" = 0 ] || die "cannot pull $BASE_IMAGE, and building a stand-in needs root"
  have debootstrap || apt_install debootstrap
  scratch=$(mktemp -d "$(dirname "$1")/base-image.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT

  say "no registry answers; building a stand-in with debootstrap (a minute or two)"
  debootstrap --variant=minbase \
    --include=python3,python3-pip,python3-venv,python-is-python3,ca-certificates \
    bookworm "$scratch/root" >"$scratch/log" 2>&1 || {
    tail -n 20 "$scratch/log" >&2
    die "debootstrap failed"
  }
  # Device nodes cannot be unpacked by rootless engines; the rest is ballast.
  tar -C "$scratch/root" --numeric-owner \
    --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
    -cf "$scratch/root.tar" .
  mv "$scratch/root.tar" "$1"
}

main
