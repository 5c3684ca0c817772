#!/bin/sh
# Turns a text into C: embed.sh NAME <text >file.c defines `const char NAME[]`, a line of text to a line of C.
set -eu
printf '/* Made by embed.sh. */\nextern const char %s[];\nconst char %s[] =\n' "$1" "$1"
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/    "&\\n"/'
printf '    "";\n'
