# Sourced behind start.sh: finds the programs of PostgreSQL.
#
# Sets: programs (their folder), as_postgres (what stands before a command that can't run as root).
initdb=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1 || true)
programs=$(dirname "$(readlink -f "$initdb")")
[ -x "$programs/initdb" ] || fail "PostgreSQL is missing: apt-get install postgresql (./setup test brings it)"

# PostgreSQL refuses to run as root; there is a user for it then.
as_postgres=
if [ "$(id -u)" -eq 0 ]; then
    id postgres >/dev/null 2>&1 ||
        fail "PostgreSQL does not run as root, and there is no user postgres; run this as another user"
    as_postgres="runuser -u postgres --"
    chmod 711 "$folder"
fi
