# Sourced behind start.sh by examples that need PostgreSQL: starts one in the temporary folder, reachable through a
# socket there and over no port. Sets PGHOST, PGUSER and PGDATABASE for every client.

. "$root/examples/common/find-postgres.sh"

mkdir "$folder/postgres"
[ -z "$as_postgres" ] || chown postgres "$folder/postgres"

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
