#!/usr/bin/env bash
# Makes sure that a Docker daemon answers: one that runs already, or one that
# this script installs (Debian packages, as root) and starts in the background.
#
#   hack/docker-up.sh          that, and no more
#   hack/docker-up.sh runsc    and it knows gVisor's runtime by the name runsc

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

PIDFILE=/var/run/docker.pid
SETTINGS=/etc/docker/daemon.json

main() {
  case ${1-} in
  '') up ;;
  runsc)
    up
    know_runsc
    ;;
  *) die "usage: docker-up.sh [runsc]" ;;
  esac
}

up() {
  if docker_answers; then
    return
  fi
  case ${DOCKER_HOST:-unix:///var/run/docker.sock} in
  unix:///var/run/docker.sock | unix:///run/docker.sock) ;;
  *) die "no Docker daemon answers at DOCKER_HOST=$DOCKER_HOST" ;;
  esac
  [ "$(id -u)" = 0 ] || die "no Docker daemon answers; start one, or run this script as root"

  lock docker-up
  install_missing

  local log
  log=$(cache_dir)/dockerd.log
  daemon=
  await "$log"
}

install_missing() {
  local packages=()
  if ! have dockerd || ! have docker; then packages+=(docker.io); fi
  if ! have runc; then packages+=(runc); fi
  if ! have iptables; then packages+=(iptables); fi
  apt_install "${packages[@]}"
}

start() {
  say "starting dockerd, log in $1"
  if [ -d /run/systemd/system ]; then
    systemctl start docker >"$1" 2>&1 || true
    daemon=systemd
    return
  fi
  remove_stale
  setsid nohup dockerd >"$1" 2>&1 </dev/null 9>&- &
  daemon=$!
}

# remove_stale deletes what a killed daemon left behind and a new one would
# stumble over. What belongs to a live process stays.
remove_stale() {
  local socket
  runs dockerd "$PIDFILE" || rm -f "$PIDFILE"
  runs containerd /var/run/docker/containerd/containerd.pid || rm -f /var/run/docker/containerd/containerd.pid
  for socket in /run/docker.sock /run/containerd/containerd.sock /run/docker/containerd/containerd.sock; do
    is_bound "$socket" || rm -f "$socket"
  done
}

# runs NAME PIDFILE tells whether PIDFILE names a live process called NAME;
# after a crash its number may belong to somebody else.
runs() {
  local pid
  pid=$(cat "$2" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ]
}

# is_bound SOCKET tells whether a process listens on SOCKET, below /run or its
# older name /var/run.
is_bound() { grep -qE " (/var)?$1\$" /proc/net/unix; }

# await starts a daemon if none runs. One that runs may be on its way out.
await() {
  local deadline=$((SECONDS + 60))
  until docker_answers; do
    if [ "$SECONDS" -ge "$deadline" ] || ended; then
      tail -n 20 "$1" >&2 || true
      die "dockerd does not answer; its whole log is $1"
    fi
    if [ -z "$daemon" ] && ! runs dockerd "$PIDFILE"; then
      start "$1"
    fi
    sleep 0.5
  done
  say "Docker $(docker version --format '{{.Server.Version}}') answers"
}

# ended tells whether the daemon that this script started is gone again.
ended() { [ -n "$daemon" ] && [ "$daemon" != systemd ] && ! kill -0 "$daemon" 2>/dev/null; }

# know_runsc adds the runtime to the daemon's settings and has it read them
# again. Boxes that run go on, and other settings stay as they are.
know_runsc() {
  local runsc pid
  runsc=$("$(dirname "$0")/runsc.sh")
  runsc=${runsc#BOXWRIGHT_RUNSC=}
  if runtime_is "$runsc"; then
    return
  fi
  [ "$(id -u)" = 0 ] || die "the daemon does not know runsc; run this script as root"
  runs dockerd "$PIDFILE" || die "the daemon that answers is not one of this machine's: add the runtime runsc to its daemon.json"
  lock docker-up
  add_runtime "$runsc"
  pid=$(cat "$PIDFILE")
  kill -HUP "$pid"
  local deadline=$((SECONDS + 30))
  until runtime_is "$runsc"; do
    [ "$SECONDS" -lt "$deadline" ] || die "dockerd did not take the runtime runsc up from $SETTINGS"
    sleep 0.2
  done
  say "Docker knows the runtime runsc"
}

runtime_is() { [ "$(docker info --format '{{with index .Runtimes "runsc"}}{{.Path}}{{end}}')" = "$1" ]; }

# add_runtime writes the settings anew, beside the old ones and then in their
# place: a daemon that starts meanwhile must not find half of them.
add_runtime() {
  mkdir -p "$(dirname "$SETTINGS")"
  python3 - "$SETTINGS" "$1" <<'PYTHON'
import json, os, sys

name, runsc = sys.argv[1:]
settings = {}
if os.path.exists(name) and os.path.getsize(name):
    with open(name) as old:
        settings = json.load(old)
settings.setdefault("runtimes", {})["runsc"] = {"path": runsc}
with open(name + ".new", "w") as new:
    json.dump(settings, new, indent=2)
    new.write("\n")
os.replace(name + ".new", name)
PYTHON
}

main "$@"
