# shellcheck shell=bash
# Functions that the scripts in this folder share. Source it; it runs nothing.
# Results go to stdout, everything a person reads goes to stderr.

set -euo pipefail

# shellcheck disable=SC2034 # the scripts that source this use it
BASE_IMAGE=python:3.11-slim

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# cache_dir makes and prints the folder for everything that is slow to make.
cache_dir() {
  local dir=${BOXWRIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/boxwright}/hack
  mkdir -p "$dir"
  printf '%s\n' "$dir"
}

# lock NAME waits until no other script of this user holds NAME, and holds it
# until this one ends. Long-lived children must close it: 9>&-.
lock() {
  exec 9>"$(cache_dir)/$1.lock"
  flock 9
}

# apt_install PACKAGE... installs what is missing, and refreshes the package
# lists only when that fails without.
apt_install() {
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query --show --showformat '${Status}' "$package" 2>/dev/null) == *" installed" ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "needs root to install: ${missing[*]}"
  have apt-get || die "install these first: ${missing[*]}"
  say "installing ${missing[*]}"
  apt_get_install "${missing[@]}" >/dev/null 2>&1 && return
  apt-get -qq update >&2
  apt_get_install "${missing[@]}" >&2
}

apt_get_install() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@" 9>&-
}

# ca_bundle prints the certificate bundle that this machine's tools were told
# to trust, or nothing when they use the system's own.
ca_bundle() { printf '%s\n' "${SSL_CERT_FILE:-${PIP_CERT:-}}"; }

docker_answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# TEST_USER is an ordinary user that tests of rootless engines run as.
TEST_USER=boxwright-test

# test_user makes that user, with the subordinate ids that rootless engines need.
test_user() {
  id "$TEST_USER" >/dev/null 2>&1 ||
    useradd --create-home --shell /bin/bash --comment "tests of rootless engines" "$TEST_USER"
  grep -q "^$TEST_USER:" /etc/subuid 2>/dev/null || usermod --add-subuids 3000000-3065535 "$TEST_USER"
  grep -q "^$TEST_USER:" /etc/subgid 2>/dev/null || usermod --add-subgids 3000000-3065535 "$TEST_USER"
}

# as_test_user COMMAND... runs it as that user would in a session of its own.
as_test_user() {
  local uid home
  uid=$(id -u "$TEST_USER")
  home=$(getent passwd "$TEST_USER" | cut -d: -f6)
  (cd "$home" && setpriv --reuid "$uid" --regid "$(id -g "$TEST_USER")" --init-groups \
    env -i HOME="$home" USER="$TEST_USER" PATH="$PATH" LANG=C.UTF-8 XDG_RUNTIME_DIR="/run/user/$uid" \
    SSL_CERT_FILE="${SSL_CERT_FILE-}" PIP_CERT="${PIP_CERT-}" "$@")
}

# The Node.js that tests use, since they need a newer one than Debian's.
NODE=22.23.3

# node_binary prints the path of a Node.js executable, kept in the cache.
node_binary() {
  local folder
  folder=$(cache_dir)/node-$NODE
  if [ ! -e "$folder/.done" ]; then
    have npm || apt_install npm
    rm -rf "$folder"
    mkdir "$folder"
    npm install --silent --no-audit --no-fund --prefix "$folder" "node@$NODE" >&2
    touch "$folder/.done"
  fi
  printf '%s\n' "$folder/node_modules/node/bin/node"
}
