#!/usr/bin/env python3
"""Inputs of a fuzz target: a file of the tree with a line of hexadecimal digits for each, and libFuzzer's folder.

    corpus.py unpack FILE FOLDER    a file of the folder for each input
    corpus.py pack FOLDER FILE      a line for each file of the folder, the short ones first
"""

import hashlib
import pathlib
import sys

SIZE_MAX = 4096  # bytes: what mutate.c runs


def unpack(file, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for line in file.read_text().split():
        content = bytes.fromhex(line)
        (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)


def pack(folder, file):
    contents = {path.read_bytes() for path in folder.iterdir()}
    kept = sorted((content for content in contents if 0 < len(content) <= SIZE_MAX), key=lambda one: (len(one), one))
    file.write_text("".join(f"{content.hex()}\n" for content in kept))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
