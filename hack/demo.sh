#!/usr/bin/env bash
# Runs the main job through a real MCP client: two programs, as a model would
# send them. "make demo" calls it, once the binaries are there. It uses Docker
# where that answers, and gVisor, which needs no engine, where none does.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin

if docker_answers; then
  "$here/base-image.sh"
elif ! have runsc && [ ! -e "$bin/runsc" ]; then
  say "no Docker answers: boxes will be made with gVisor, without an engine"
  eval "$("$here/runsc.sh")"
  cp "$BOXWRIGHT_RUNSC" "$bin/runsc"
fi

clients=$("$here/clients.sh" demo)
eval "$clients"
exec "$BOXWRIGHT_CLIENT_MCP1" "$here/demo.py" "$bin/boxwright" "$here/../demo-output"
