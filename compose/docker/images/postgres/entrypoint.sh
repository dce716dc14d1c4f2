#!/bin/sh
# Makes the cluster at the first start, with the superuser and the database that the variables name, then becomes the server.
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
as() { setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }

mkdir -p "$PGDATA"
chown postgres:postgres "$PGDATA"
chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  as "$bin/initdb" -D "$PGDATA" -U "$user" -A "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" --encoding=UTF8 --locale=C --no-sync \
    --no-instructions
  echo "host all all all ${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$database\";" | as "$bin/postgres" --single -D "$PGDATA" postgres > /dev/null
fi
[ "${1:-postgres}" = postgres ] && shift
exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$bin/postgres" -D "$PGDATA" \
  -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
