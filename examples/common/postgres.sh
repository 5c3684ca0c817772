# Sourced behind start.sh by examples that need PostgreSQL: starts one in the temporary folder, reachable through a
# socket there and over no port. Sets PGHOST, PGUSER and PGDATABASE for every client.

initdb=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1 || true)
programs=$(dirname "$initdb")
[ -x "$programs/initdb" ] || fail "PostgreSQL is missing: apt-get install postgresql (./setup test brings it)"

# PostgreSQL refuses to run as root; there is a user for it then.
as_postgres=
mkdir "$folder/postgres"
if [ "$(id -u)" -eq 0 ]; then
    id postgres >/dev/null 2>&1 ||
        fail "PostgreSQL does not run as root, and there is no user postgres; run this as another user"
    as_postgres="runuser -u postgres --"
    chmod 711 "$folder"
    chown postgres "$folder/postgres"
fi

stop_more() {
    [ ! -e "$folder/postgres/data/postmaster.pid" ] ||
        (cd / && $as_postgres "$programs/pg_ctl" -D "$folder/postgres/data" -m immediate stop >/dev/null 2>&1) || true
}

(
    cd / # where any user may stand
    $as_postgres "$programs/initdb" -D "$folder/postgres/data" -U tally --auth=trust -E UTF8 --locale=C -N &&
        $as_postgres "$programs/pg_ctl" -D "$folder/postgres/data" -l "$folder/postgres/log" -w \
            -o "-c listen_addresses='' -c unix_socket_directories='$folder/postgres'" start
) >"$folder/postgres.log" 2>&1 || {
    cat "$folder/postgres.log" "$folder/postgres/log" >&2
    fail "PostgreSQL did not start"
}
export PGHOST="$folder/postgres" PGUSER=tally PGDATABASE=postgres
