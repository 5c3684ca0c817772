#!/usr/bin/python3
"""Puts the files of the dashboard into the program: embed.py TABLE.c CONTENTS.S CONTENTS.bin FILE...

CONTENTS.bin has each file twice, as it is and zipped. CONTENTS.S includes it, and TABLE.c says where each file is. The
same files give the same output."""

import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

ASSEMBLY = """/* Made by embed.py. */
    .section .rodata
    .globl ui_contents
    .balign 16
ui_contents:
    .incbin "%s"
    .section .note.GNU-stack,"",%%progbits
"""

TABLE = """/* Made by embed.py. */
#include "ui/ui.h"

extern const uint8_t ui_contents[];

const struct ui_file ui_files[] = {
%s};
const size_t ui_file_count = %d;
"""

FILE = """    {.name = BYTES("%s"),
     .content_type = "%s",
     .plain = {{ui_contents + %d, %d}, BYTES("\\"%s\\""), "ETag: \\"%s\\"\\r\\n" SHARED UI_FIELDS},
     .zipped = {{ui_contents + %d, %d}, BYTES("\\"%s\\""),
                "ETag: \\"%s\\"\\r\\nContent-Encoding: gzip\\r\\n" SHARED UI_FIELDS}},
"""

# A browser asks each time, and is answered 304 while the file is the same.
SHARED = '"Cache-Control: no-cache\\r\\nVary: Accept-Encoding\\r\\n"'


def digest(content):
    return hashlib.sha256(content).hexdigest()[:32]


def main(table, assembly, binary, *paths):
    contents = bytearray()
    rows = []
    for path in map(pathlib.Path, paths):
        name = "" if path.name == "index.html" else path.name
        places = []
        plain = path.read_bytes()
        for form in (plain, gzip.compress(plain, 9, mtime=0)):
            places += [len(contents), len(form), digest(form), digest(form)]
            contents += form
        rows.append(FILE.replace("SHARED", SHARED) % (name, TYPES[path.suffix], *places))
    pathlib.Path(binary).write_bytes(contents)
    pathlib.Path(assembly).write_text(ASSEMBLY % pathlib.Path(binary).resolve())
    pathlib.Path(table).write_text(TABLE % ("".join(rows), len(rows)))


main(*sys.argv[1:])
