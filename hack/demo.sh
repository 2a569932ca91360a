#!/usr/bin/env bash
# Runs the main job through a real MCP client: two programs, as a model would
# send them. "make demo" calls it, once engine, image and binaries are there.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
clients=$("$here/clients.sh" demo)
eval "$clients"
exec "$BOXWRIGHT_CLIENT_MCP1" "$here/demo.py" "$here/../bin/boxwright" "$here/../demo-output"
