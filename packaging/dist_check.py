#!/usr/bin/python3
"""The archive of `make dist` and the npm packages of `make npm`, on machines that have nothing.

    make dist-check                                   # as root; builds twice
    make dist-check CHECK='--dist build/dist'         # the archive that is there; nothing is built
    make dist-check CHECK='--trees debian-12'

The archive is built twice, in folders of other names, and compared byte by byte. Then it is unpacked in minimal trees
of Debian 12, Debian 13 and Ubuntu 24.04, in which no package is installed for it. What the programs load is looked at,
and they are used. Node.js and npm of this machine are carried into the tree: the packed npm packages are installed
there without a network, and startTally() answers within a second. A distribution whose packages can't be had is
skipped.

Standard output: a line for each step, and at the end "N passed, N failed". All that was said is in build/dist-check.
Exit status 0: nothing failed."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "fresh"))
from fresh import TREES, Failed, Skipped, Tree, take  # noqa: E402

FOLDER = ROOT / "build" / "dist-check"
START_MS = 1000

USE = """set -e
cd "/opt/any folder/"tally-*
bin/tallyd --listen 127.0.0.1:9324 --temporary-data on >/tmp/said 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon' EXIT
for _ in $(seq 300); do grep -q '^tallyd ready' /tmp/said && break; sleep 0.1; done
bin/tally queue create orders
bin/tally send orders 'order 17'
bin/tally receive orders
"""

START = """
import { startTally } from "tally-server";
const began = performance.now();
const tally = await startTally({ queues: ["orders"] });
const took = performance.now() - began;
await tally.reset();
await tally.stop();
console.log(JSON.stringify({ took }));
"""


def run(log, *command, **more):
    print(f"\n=== {' '.join(map(str, command))}", file=log, flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise Failed(f"{pathlib.Path(command[0]).name}: status {done.returncode}")


def copy_tree(target):
    """What git knows or would know, and the library that ./setup unpacked."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name, follow_symlinks=False)
    if (ROOT / "build" / "deps").exists():
        shutil.copytree(ROOT / "build" / "deps", target / "build" / "deps", symlinks=True)


def build_twice(log, result):
    version = subprocess.run([ROOT / "packaging" / "version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    environment = os.environ | {"VERSION": version.strip(), "SOURCE_DATE_EPOCH": seconds.strip(), "CCACHE_DISABLE": "1"}
    digests = []
    trees = [FOLDER / name / "tally" for name in ["one", "another-one"]]
    for tree in trees:
        copy_tree(tree)
    for tree in trees:
        run(log, tree / "packaging" / "dist", tree / "result", env=environment)
        (archive,) = (tree / "result").glob("*.tar.gz")
        digests.append(hashlib.sha256(archive.read_bytes()).hexdigest())
    shutil.copytree(trees[0] / "result", result)
    if digests[0] != digests[1]:
        raise Failed("they differ (diffoscope says where)")
    return f"the same: {digests[0][:16]}…"


def fill(tree, result, packed):
    made = tree.build(packages="libc-bin")  # which every tree has
    place = tree.root / "opt" / "any folder"
    place.mkdir()
    (archive,) = result.glob("*.tar.gz")
    run(tree.log, "tar", "-xzf", archive, "-C", place)
    shutil.copytree(packed, tree.root / "packed")
    node = shutil.which("node")
    shutil.copy(os.path.realpath(node), tree.root / "usr" / "bin" / "node")
    npm = pathlib.Path(os.path.realpath(shutil.which("npm"))).parents[1]
    shutil.copytree(npm, tree.root / "opt" / "npm", symlinks=True)
    return made


def loads(tree):
    """Everything but glibc comes from the archive."""
    said = tree.run("ldd '/opt/any folder/'tally-*/bin/tallyd '/opt/any folder/'tally-*/bin/tally", 60)
    if "not found" in said:
        raise Failed(re.search(r".*not found.*", said)[0].strip())
    foreign = {name for name, path in re.findall(r"(\S+) => (/\S+)", said) if not path.startswith("/opt/any")}
    if foreign - {"libc.so.6", "libm.so.6", "libresolv.so.2", "libdl.so.2", "libpthread.so.0", "librt.so.1"}:
        raise Failed(f"{foreign} come from the system")
    return f"{said.count('=> /opt/any')} libraries of the archive, {len(foreign)} of glibc"


def use(tree):
    said = tree.run(USE, 120)
    if "order 17" not in said:
        raise Failed("the message did not come back")
    return "a message was sent and received"


def start(tree):
    install = "cd /project && node /opt/npm/bin/npm-cli.js install --offline --no-audit --no-fund /packed/*.tgz"
    (tree.root / "project").mkdir()
    (tree.root / "project" / "package.json").write_text('{"private": true}')
    (tree.root / "project" / "start.mjs").write_text(START)
    tree.run(install, 300)
    took = min(json.loads(tree.run("cd /project && node start.mjs", 60).splitlines()[-1])["took"] for _ in range(3))
    if took > START_MS:
        raise Failed(f"startTally() answered after {took:.0f} ms")
    if tree.run("ls /tmp | grep tally-data || true", 10).strip():
        raise Failed("a folder was left behind")
    return f"startTally() answered after {took:.0f} ms"


def try_tree(name, result, packed):
    """How many steps passed, and how many failed."""
    tree = Tree(name, FOLDER)
    tree.remove()
    steps = [("loaded libraries", loads), ("the programs", use), ("npm install, startTally()", start)]
    try:
        if not take(tree, "a minimal tree", lambda: fill(tree, result, packed)):
            return 0, 1
        verdicts = [take(tree, what, lambda: action(tree)) for what, action in steps]
        return verdicts.count(True) + 1, verdicts.count(False)
    except Skipped as reason:
        print(f"{name:<13} skipped: {reason}", flush=True)
        return 0, 0
    finally:
        tree.remove()


class Here:
    """The steps that need no tree."""

    name = "build"

    def __init__(self):
        self.log = open(FOLDER / "build.log", "w")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", metavar="FOLDER", help="take what is there, build nothing")
    parser.add_argument("--trees", nargs="*", default=list(TREES), choices=list(TREES))
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("making trees and entering them needs root")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    here, packed = Here(), FOLDER / "packed"
    result = pathlib.Path(arguments.dist).absolute() if arguments.dist else FOLDER / "result"
    verdicts = []
    if not arguments.dist:
        verdicts.append(take(here, "two builds", lambda: build_twice(here.log, result)))
    (unpacked,) = result.glob("tally-*-linux-*/")
    verdicts.append(take(here, "npm pack", lambda: run(here.log, ROOT / "packaging/npm/pack", unpacked, packed)))
    counts = [try_tree(name, result, packed) for name in arguments.trees]
    passed, failed = (sum(numbers) for numbers in zip((verdicts.count(True), verdicts.count(False)), *counts))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
