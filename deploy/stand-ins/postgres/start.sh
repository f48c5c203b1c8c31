#!/bin/sh
# Sets an empty volume up, as the official image does, and runs the server. Nothing listens on the network before that is
# done: whoever reaches the server finds its databases.
set -eu

set_up() {
  echo "${POSTGRES_PASSWORD:?is not set}" \
    | initdb --username=postgres --pwfile=/dev/stdin --auth-local=trust --auth-host=scram-sha-256
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait start --options="-c listen_addresses=''"
  for script in /docker-entrypoint-initdb.d/*.sql; do
    psql --no-psqlrc --set=ON_ERROR_STOP=1 --username=postgres --file="$script"
  done
  pg_ctl --wait --mode=fast stop
}

[ -s "$PGDATA/PG_VERSION" ] || set_up
exec postgres -c 'listen_addresses=*'
