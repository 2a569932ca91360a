#!/usr/bin/env bash
# Installs PostgreSQL, of which tests start servers of their own, and prints
# where its programs are as KEY=VALUE lines that a shell can evaluate. It starts
# nothing.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

main() {
  lock postgres
  [ -n "$(programs)" ] || install_postgres
  printf 'BOXWRIGHT_TEST_POSTGRES=%q\n' "$(programs)"
}

# programs prints the folder of the newest server's programs, or nothing.
programs() {
  local folder newest=
  for folder in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort); do
    [ ! -x "$folder/initdb" ] || newest=$folder
  done
  printf '%s\n' "$newest"
}

# install_postgres keeps the package from making a cluster and running it.
install_postgres() {
  apt_install postgresql-common
  mkdir -p /etc/postgresql-common/createcluster.d
  echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/boxwright.conf
  apt_install postgresql
  [ -n "$(programs)" ] || die "the package postgresql has no initdb"
}

main
