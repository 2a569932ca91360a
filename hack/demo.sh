#!/usr/bin/env bash
# Runs the main job through a real MCP client: programs as a model would send
# them. "make demo" calls it, once the binaries are there. It uses what the
# server chooses: Docker, Podman, or gVisor, which needs no engine.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin

main() {
  if docker_answers; then
    "$here/base-image.sh"
  elif ! works podman; then
    without_engine
  fi
  local clients
  clients=$("$here/clients.sh" demo)
  eval "$clients"
  exec "$BOXWRIGHT_CLIENT_MCP1" "$here/demo.py" "$bin/boxwright" "$here/../demo-output"
}

# works BACKEND tells whether the server could use it as it is.
works() { "$bin/boxwright" plugin list 2>/dev/null | grep -E "^$1 .* works +/" >/dev/null; }

# without_engine makes gVisor ready. Packages are fetched through slirp4netns,
# by the machine's own pip or uv; without these the demo leaves the plot out.
without_engine() {
  local built
  if ! have runsc && [ ! -e "$bin/runsc" ]; then
    say "no engine answers: boxes will be made with gVisor, without an engine"
    built=$("$here/runsc.sh")
    eval "$built"
    cp "$BOXWRIGHT_RUNSC" "$bin/runsc"
  fi
  if ! have slirp4netns && [ "$(id -u)" = 0 ] && have apt-get; then
    apt_install slirp4netns
  fi
  if ! have slirp4netns || ! python3 -m pip --version >/dev/null 2>&1 && ! have uv; then
    say "the plot is left out: its package needs slirp4netns, and pip or uv, on this machine"
    export DEMO_PLOT=no
  fi
}

main
