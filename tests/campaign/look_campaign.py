#!/usr/bin/python3
"""The campaign of looking: the campaign of groups (groups.c), with the daemon killed all the while. Beside it onlookers
ask for everything that only reads: actions, dry runs, /metrics, the command line, and a page of the dashboard where
there is Chromium. Looking changes nothing: order, leases, ends and receive counts are judged as without them.

    make campaign-look CAMPAIGN='--seconds 3600'
    tests/campaign/look_campaign.py --groups 20000 --kill-each 5000 --no-pages

Standard output: one line of JSON, the figures of groups and those of the onlookers. Exit status 0: nothing was wrong,
and each thing that is looked at was shown at least once."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from onlookers import Onlookers  # noqa: E402

QUEUE = "campaign.fifo"


def options_read():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tallyd", default=ROOT / "build/bin/tallyd")
    arguments.add_argument("--tally", default=ROOT / "build/bin/tally")
    arguments.add_argument("--program", default=ROOT / "build/release/tests/campaign/groups")
    arguments.add_argument("--groups", type=int, default=100000)
    arguments.add_argument("--seconds", type=float, default=0, help="again and again, for so long")
    arguments.add_argument("--kill-each", type=int, default=20000, help="messages sent or ended between two kills")
    arguments.add_argument("--lease", type=int, default=2)
    arguments.add_argument("--onlookers", type=int, default=3)
    arguments.add_argument("--workers", type=int, default=64)
    arguments.add_argument("--no-pages", action="store_true", help="no browser")
    return arguments.parse_args()


def run_once(options, folder):
    """One load from its beginning to its end: (its figures or None, what it said, the onlookers)."""
    port = free_port()
    command = [options.program, "--tallyd", options.tallyd, "--folder", f"{folder}/data", "--port", port,
               "--groups", options.groups, "--workers", options.workers, "--lease", options.lease,
               "--kill-each", options.kill_each]
    load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    onlookers = Onlookers(port, QUEUE, options.tally)
    has_pages = not options.no_pages and shutil.which("chromium") is not None
    try:
        beginning = threading.Thread(target=onlookers.make_others)
        beginning.start()
        beginning.join(60)
        onlookers.start(options.onlookers, has_pages)
        out, err = load.communicate()
    finally:
        load.kill()
        onlookers.stop()
    return (json.loads(out) if out else None), load.returncode, err, onlookers


def free_port():
    sys.path.insert(0, str(ROOT / "tests/system"))
    from conftest import free_port as find  # noqa: PLC0415
    return find()


def sum_up(total, counted, onlookers):
    for name, value in counted.items():
        if name in ("groups", "workers", "seed"):
            total[name] = value
        else:
            total[name] = max(total.get(name, 0), value) if name.endswith("_max_ms") else total.get(name, 0) + value
    total["loads"] = total.get("loads", 0) + 1
    programs = sum(count for name, count in onlookers.good.items() if name.startswith("tally "))
    pages = onlookers.good["pages"]
    total["looks"] = total.get("looks", 0) + sum(onlookers.good.values()) - programs - pages
    total["programs"] = total.get("programs", 0) + programs
    total["pages"] = total.get("pages", 0) + pages
    total["faults_of_looking"] = total.get("faults_of_looking", 0) + len(onlookers.faults)


LOADS_MAX = 10  # beyond the time that is asked for, until every look has gone well once: a load may last seconds only


def main():
    options = options_read()
    folder = tempfile.mkdtemp(prefix="tally-campaign-")
    end, total, missing = time.monotonic() + options.seconds, {}, None
    while True:
        counted, status, err, onlookers = run_once(options, folder)
        if counted is not None:
            sum_up(total, counted, onlookers)
        if status != 0 or onlookers.faults or counted is None:
            print(json.dumps(total))
            print(err, *onlookers.faults[:20], sep="\n", file=sys.stderr)
            sys.exit(f"the folder {folder} is left as it is")
        shutil.rmtree(f"{folder}/data")
        now_missing = onlookers.missing()
        missing = now_missing if missing is None else {action: missing[action] for action in missing
                                                       if action in now_missing}
        if time.monotonic() >= end and (not missing or total["loads"] >= LOADS_MAX):
            break
    print(json.dumps({name: round(value, 1) for name, value in total.items()}))
    if missing:
        sys.exit("\n".join(f"{action} never went well: {refused}" for action, refused in missing.items()))
    shutil.rmtree(folder, ignore_errors=True)


main()
