#!/usr/bin/env bash
# Installs the programs by other people that the tests drive Boxwright with or
# hand it, each pinned and in a folder of its own in the cache, and prints where
# they are as KEY=VALUE lines that a shell can evaluate. "clients.sh demo" stops
# after the one that the demo uses.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

UV=0.13.9
MCP1=1.30.0
MCP2=2.3.0
FASTMCP=4.2.3
INSPECTOR=2.12.0
VERSITYGW=1.8.0

main() {
  clients=$(cache_dir)/clients
  mkdir -p "$clients"
  lock clients
  once "mcp-$MCP1" python_client "mcp==$MCP1"
  print BOXWRIGHT_CLIENT_MCP1 "mcp-$MCP1/bin/python"
  [ "${1:-all}" = all ] || return 0
  once "mcp-$MCP2" python_client "mcp==$MCP2"
  once "fastmcp-$FASTMCP" python_client "fastmcp==$FASTMCP"
  once "uv-$UV" python_client "uv==$UV"
  once "inspector-$INSPECTOR" inspector
  once "versitygw-$VERSITYGW" s3_server
  print BOXWRIGHT_CLIENT_MCP2 "mcp-$MCP2/bin/python"
  print BOXWRIGHT_CLIENT_FASTMCP "fastmcp-$FASTMCP/bin/python"
  print BOXWRIGHT_UV "uv-$UV/bin/uv"
  print BOXWRIGHT_TEST_S3 "versitygw-$VERSITYGW/versitygw"
  print BOXWRIGHT_INSPECTOR "inspector-$INSPECTOR/mcp-inspector"
}

print() { printf '%s=%q\n' "$1" "$clients/$2"; }

# once NAME FUNCTION [ARGUMENT...] calls FUNCTION with the folder of NAME, and
# again from the start if it did not end well.
once() {
  local folder=$clients/$1
  if [ -e "$folder/.done" ]; then
    return
  fi
  say "installing $1"
  rm -rf "$folder"
  "$2" "$folder" "${@:3}" >&2
  touch "$folder/.done"
}

# python_client FOLDER REQUIREMENT makes a virtual environment.
python_client() {
  python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  python3 -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"
}

inspector() {
  local node
  node=$(node_binary)
  have npm || apt_install npm
  mkdir "$1"
  npm install --silent --no-audit --no-fund --prefix "$1" "@modelcontextprotocol/inspector@$INSPECTOR"
  cat >"$1/mcp-inspector" <<WRAPPER
#!/bin/sh
PATH=${node%/*}:\$PATH exec "$1/node_modules/.bin/mcp-inspector" "\$@"
WRAPPER
  chmod +x "$1/mcp-inspector"
}

s3_server() {
  mkdir "$1"
  GOBIN=$1 GOFLAGS='' go install "github.com/versity/versitygw/cmd/versitygw@v$VERSITYGW"
}

main "$@"
