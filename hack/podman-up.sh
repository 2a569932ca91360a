#!/usr/bin/env bash
# Makes sure that Podman's API service answers, and prints where:
#
#   hack/podman-up.sh            rootful, BOXWRIGHT_PODMAN=unix:///…
#   hack/podman-up.sh rootless   of the user that rootless tests run as,
#                                BOXWRIGHT_PODMAN_ROOTLESS=unix:///…, BOXWRIGHT_TEST_USER=…
#
# Both are services of the tests' own: what Podman this machine has is left alone.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

main() {
  [ "$(id -u)" = 0 ] || die "needs root"
  lock podman-up
  install_missing
  case ${1-} in
  '') rootful ;;
  rootless) rootless ;;
  *) die "usage: podman-up.sh [rootless]" ;;
  esac
}

install_missing() {
  apt_install podman crun runc uidmap slirp4netns fuse-overlayfs netavark aardvark-dns iptables passt
}

rootful() {
  local dir socket
  dir=$(cache_dir)/podman
  socket=/run/boxwright-test/podman.sock
  mkdir -p "$dir" "$(dirname "$socket")"
  configure "$dir"
  if [ -e "$dir/changed" ] || ! answers "$socket"; then
    stop "$dir/service.pid"
    say "starting Podman's service, log in $dir/service.log"
    rm -f "$socket"
    cd / # Podman's helpers leave notes where they are
    CONTAINERS_CONF=$dir/containers.conf setsid nohup podman system service --time 0 "unix://$socket" \
      >"$dir/service.log" 2>&1 </dev/null 9>&- &
    echo $! >"$dir/service.pid"
    await "$socket" "$dir/service.log"
    rm -f "$dir/changed"
  fi
  printf 'BOXWRIGHT_PODMAN=unix://%s\n' "$socket"
}

rootless() {
  local home runtime socket uid conf
  test_user
  uid=$(id -u "$TEST_USER")
  home=$(getent passwd "$TEST_USER" | cut -d: -f6)
  runtime=/run/user/$uid
  socket=$runtime/podman/podman.sock
  install -d -o "$TEST_USER" -m 700 "$runtime" "$runtime/podman"
  chmod 666 /dev/net/tun /dev/fuse
  as_test_user mkdir -p "$home/.config/containers"
  as_test_user tee "$home/.config/containers/storage.conf" >/dev/null <<CONF
[storage]
driver = "overlay"
CONF
  conf=$home/.config/containers
  configure "$conf"
  if [ -e "$conf/changed" ] || ! answers "$socket"; then
    stop "$home/podman.pid"
    say "starting Podman's service of $TEST_USER, log in $home/podman.log"
    rm -f "$socket"
    as_test_user sh -c "cd && { setsid nohup podman system service --time 0 unix://$socket >$home/podman.log 2>&1 </dev/null 9>&- & echo \$! >podman.pid; }"
    await "$socket" "$home/podman.log"
    rm -f "$conf/changed"
  fi
  printf 'BOXWRIGHT_PODMAN_ROOTLESS=unix://%s\nBOXWRIGHT_TEST_USER=%s\n' "$socket" "$TEST_USER"
}

# configure DIR writes the settings that Podman needs without systemd and, on
# cgroup v1, without crun. By default a process stays for five minutes after
# each exec. DIR/changed is there until a service has been started with them.
configure() {
  local runtime=crun
  [ -e /sys/fs/cgroup/cgroup.controllers ] || runtime=runc
  cat >"$1/containers.conf.new" <<CONF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=32768:32768"]
[engine]
runtime = "$runtime"
cgroup_manager = "cgroupfs"
events_logger = "file"
exit_command_delay = 1
CONF
  chmod 644 "$1/containers.conf.new"
  cmp -s "$1/containers.conf.new" "$1/containers.conf" || touch "$1/changed"
  mv "$1/containers.conf.new" "$1/containers.conf"
}

# stop PIDFILE ends a service that this script started: one with other settings,
# or one that hangs.
stop() {
  local pid deadline=$((SECONDS + 10))
  pid=$(cat "$1" 2>/dev/null) || return 0
  case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
  "podman system service "*) ;;
  *) return 0 ;;
  esac
  say "ending the service that runs as process $pid"
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || kill -9 "$pid" 2>/dev/null || true
    sleep 0.2
  done
}

answers() {
  [ -S "$1" ] && timeout 20 podman --remote --url "unix://$1" info >/dev/null 2>&1
}

await() {
  local deadline=$((SECONDS + 60))
  until answers "$1"; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      tail -n 20 "$2" >&2 || true
      die "Podman's service does not answer at $1; its log is $2"
    fi
    sleep 0.5
  done
  say "Podman $(podman --version | cut -d' ' -f3) answers at $1"
}

main "$@"
