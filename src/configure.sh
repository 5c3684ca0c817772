#!/bin/sh
# configure.sh FOLDER [OPTION…]: has Meson configure a build folder, for the rules of the Makefile. It is run where
# meson.build is.
#
# FOLDER/configured says what the folder was configured with: the options, and which of the libraries that Tally can be
# built without were there. Where both are still so, nothing is done. Where they are not, it is configured again: ./run
# comes first, say, and ./test brings what the unit tests need. Ninja then compiles what that changes, not everything.
set -eu
folder=$1
shift
log=$folder.log

now="options: $*; libraries:"
for library in $(sed -n "s/^[^#]*dependency('\([^']*\)'.*required: false.*/\1/p" meson.build); do
    if ${PKG_CONFIG:-pkg-config} --exists "$library" 2>/dev/null; then
        now="$now $library"
    fi
done

configure() {
    if [ ! -f "$folder/build.ninja" ]; then
        rm -rf "$folder"
        meson setup "$folder" "$@"
    else
        # Without the first, Meson would go on with libraries that it found once and that are gone.
        meson configure --clearcache "$folder" && meson setup --reconfigure "$folder" "$@"
    fi
}

if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/configured" 2>/dev/null)" = "$now" ]; then
    exit
fi
mkdir -p "$(dirname "$folder")"
if ! configure "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
echo "$now" >"$folder/configured"
