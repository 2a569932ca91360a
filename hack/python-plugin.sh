#!/usr/bin/env bash
# Makes the example plugin in Python runnable: a virtual environment with what it
# imports, the modules of backend.proto, and an executable that starts it. All is
# kept in the cache. Prints where: BOXWRIGHT_PYTHON_PLUGIN=/…/boxwright-backend-python

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

PACKAGES=(grpclib==0.4.9 protobuf==7.36.2 googleapis-common-protos==1.76.0 cryptography==50.0.2)
GENERATOR=grpcio-tools==1.85.1

main() {
  local root proto dir key
  root=$(cd "$(dirname "$0")/.." && pwd)
  proto=$root/proto/boxwright/backend/v1/backend.proto
  key=$({ printf '%s\n' "${PACKAGES[@]}" "$GENERATOR" "$root" && cat "$proto" "$0"; } | sha256sum | cut -c1-16)
  dir=$(cache_dir)/python-plugin-$key
  lock python-plugin
  if [ ! -e "$dir/.done" ]; then
    say "installing the example plugin in Python"
    rm -rf "$dir"
    make_plugin "$root" "$proto" "$dir" >&2
    touch "$dir/.done"
  fi
  printf 'BOXWRIGHT_PYTHON_PLUGIN=%q\n' "$dir/boxwright-backend-python"
}

# make_plugin ROOT PROTO DIR fills DIR.
make_plugin() {
  python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  python3 -m venv "$3/venv"
  "$3/venv/bin/python" -m pip install --quiet --disable-pip-version-check "${PACKAGES[@]}" "$GENERATOR"
  mkdir "$3/modules"
  PATH=$3/venv/bin:$PATH "$3/venv/bin/python" -m grpc_tools.protoc --proto_path "$(dirname "$2")" \
    --python_out "$3/modules" --grpclib_python_out "$3/modules" backend.proto
  cat >"$3/boxwright-backend-python" <<WRAPPER
#!/bin/sh
PYTHONPATH='$3/modules' exec '$3/venv/bin/python' -B '$1/plugins/example-python/main.py'
WRAPPER
  chmod +x "$3/boxwright-backend-python"
}

main
