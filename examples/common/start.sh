# Sourced by each example's `run`. Brings what the example needs, starts a daemon for it and removes everything at the
# end.
#
#   TALLY_URL=http://…   use this server instead of starting one; queues and batches of the example stay there
#   TALLY_BIN=FOLDER     where tallyd is (default: build/bin, built if it is missing)
#
# An example that has no JavaScript sets needs_node=no before; one that starts its daemons itself needs_daemon=no.
#
# Sets: example (the example's folder), root (the project's), folder (a temporary one), bin (where the programs are),
# TALLY_URL.
set -eu
example=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$example/../.." && pwd)

fail() {
    echo "$(basename "$example"): $*" >&2
    exit 1
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/tally-example.XXXXXX")
daemon=
stop_all() {
    trap '' INT TERM HUP # once is enough
    if command -v stop_more >/dev/null; then stop_more; fi
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- The SDK: from npm into build/examples, where the examples find it through a link ---------------------------------

install_sdk() {
    command -v node >/dev/null || fail "Node.js is missing: ./setup test brings it, or apt-get install nodejs npm"
    modules=$root/build/examples
    if ! cmp -s "$root/examples/common/package-lock.json" "$modules/node_modules/.installed-lock"; then
        command -v npm >/dev/null || fail "npm is missing: ./setup test brings it, or apt-get install npm"
        echo "Installing the AWS SDK into build/examples"
        mkdir -p "$modules"
        cp "$root/examples/common/package.json" "$root/examples/common/package-lock.json" \
            "$root/examples/common/.npmrc" "$modules"
        (cd "$modules" && npm ci --no-audit --no-fund --loglevel=error) >"$modules/npm.log" 2>&1 </dev/null || {
            tail -n 15 "$modules/npm.log" >&2
            fail "npm ci failed in build/examples"
        }
        cp "$modules/package-lock.json" "$modules/node_modules/.installed-lock"
    fi
    [ -e "$root/examples/node_modules" ] || ln -s ../build/examples/node_modules "$root/examples/node_modules"
}
[ "${needs_node:-yes}" = no ] || install_sdk

# --- The daemon -------------------------------------------------------------------------------------------------------

bin=${TALLY_BIN:-$root/build/bin}
build_programs() {
    [ ! -x "$bin/tallyd" ] || return 0
    [ -z "${TALLY_BIN:-}" ] || fail "there is no tallyd in $TALLY_BIN"
    echo "Building Tally, once: a minute or some"
    (cd "$root" && ./setup && make -s build) >"$folder/build.log" 2>&1 || {
        cat "$folder/build.log" >&2
        fail "can't build Tally"
    }
}

start_daemon() {
    : >"$folder/tallyd.log"
    "$bin/tallyd" --listen 127.0.0.1:0 --data "$folder/data" >"$folder/tallyd.log" 2>&1 </dev/null &
    daemon=$!
    waited=0
    until grep -qs '^tallyd ready' "$folder/tallyd.log"; do
        if ! kill -0 $daemon 2>/dev/null || [ $waited -ge 600 ]; then
            cat "$folder/tallyd.log" >&2
            fail "the daemon did not start"
        fi
        waited=$((waited + 1))
        sleep 0.1
    done
    TALLY_URL=$(sed -n 's|^tallyd ready on \(http://[^ ]*\).*|\1|p' "$folder/tallyd.log")
}

TALLY_EXAMPLE_SUFFIX=
if [ "${needs_daemon:-yes}" = no ]; then
    build_programs
else
    if [ -n "${TALLY_URL:-}" ]; then
        TALLY_EXAMPLE_SUFFIX=-$$ # queues of an earlier run are still there
    else
        build_programs
        start_daemon
    fi
    export TALLY_URL TALLY_EXAMPLE_SUFFIX
fi
