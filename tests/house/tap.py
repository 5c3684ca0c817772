"""A little TAP, for the Python tests of this folder: check("claim", wrong) shows what is wrong, if anything is.
plan() ends the script, with status 1 if any check failed."""

import sys

SHOWN_MAX = 40
results = []


def check(claim, wrong):
    wrong = list(wrong)
    results.append(not wrong)
    print(f"{'not ok' if wrong else 'ok'} {len(results)} - {claim}")
    for each in wrong[:SHOWN_MAX]:
        print(f"# {each}")


def plan():
    print(f"1..{len(results)}")
    sys.exit(not all(results))
