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
NPM1=1.32.2
NPM2=2.4.0
REMOTE=0.15.1
CONFORMANCE1=0.1.16
CONFORMANCE2=0.2.0-alpha.12
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
  once "inspector-$INSPECTOR" npm_program "@modelcontextprotocol/inspector@$INSPECTOR" mcp-inspector
  once "npm-$NPM1-$NPM2" npm_clients "@modelcontextprotocol/sdk@$NPM1" "@modelcontextprotocol/client@$NPM2"
  once "remote-$REMOTE" npm_program "mcp-remote@$REMOTE" mcp-remote
  once "conformance-$CONFORMANCE1" npm_program "@modelcontextprotocol/conformance@$CONFORMANCE1" conformance
  once "conformance-$CONFORMANCE2" npm_program "@modelcontextprotocol/conformance@$CONFORMANCE2" conformance
  once "versitygw-$VERSITYGW" s3_server
  print BOXWRIGHT_CLIENT_MCP2 "mcp-$MCP2/bin/python"
  print BOXWRIGHT_CLIENT_FASTMCP "fastmcp-$FASTMCP/bin/python"
  print BOXWRIGHT_UV "uv-$UV/bin/uv"
  print BOXWRIGHT_TEST_S3 "versitygw-$VERSITYGW/versitygw"
  print BOXWRIGHT_INSPECTOR "inspector-$INSPECTOR/mcp-inspector"
  print BOXWRIGHT_CLIENT_NPM "npm-$NPM1-$NPM2/node"
  print BOXWRIGHT_CLIENT_REMOTE "remote-$REMOTE/mcp-remote"
  print BOXWRIGHT_CLIENT_CONFORMANCE1 "conformance-$CONFORMANCE1/conformance"
  print BOXWRIGHT_CLIENT_CONFORMANCE2 "conformance-$CONFORMANCE2/conformance"
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

# npm_program FOLDER REQUIREMENT COMMAND installs a program for Node.js, and makes FOLDER/COMMAND start it.
npm_program() {
  npm_install "$1" "$2"
  node_wrapper "$1/$3" PATH "$(dirname "$(node_binary)"):\$PATH" "$1/node_modules/.bin/$3"
}

# npm_clients FOLDER REQUIREMENT... installs libraries, and makes FOLDER/node a Node.js that finds them.
npm_clients() {
  npm_install "$@"
  node_wrapper "$1/node" NODE_PATH "$1/node_modules" "$(node_binary)"
}

npm_install() {
  have npm || apt_install npm
  mkdir "$1"
  PATH=$(dirname "$(node_binary)"):$PATH npm install --silent --no-audit --no-fund --prefix "$@"
}

# node_wrapper FILE NAME VALUE PROGRAM writes a script that starts PROGRAM with one more variable.
node_wrapper() {
  printf '#!/bin/sh\n%s="%s" exec "%s" "$@"\n' "$2" "$3" "$4" >"$1"
  chmod +x "$1"
}

s3_server() {
  mkdir "$1"
  GOBIN=$1 GOFLAGS='' go install "github.com/versity/versitygw/cmd/versitygw@v$VERSITYGW"
}

main "$@"
