# A little TAP, for the shell tests of this folder: check "claim" COMMAND… runs a command; what it says is shown if it
# fails. plan ends the script, with status 1 if any check failed.
tap_count=0
tap_failed=0

check() {
    claim=$1
    shift
    tap_count=$((tap_count + 1))
    if tap_said=$("$@" 2>&1); then
        echo "ok $tap_count - $claim"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $claim"
        echo "$tap_said" | tail -n 20 | sed 's/^/# /'
    fi
}

plan() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit
}
