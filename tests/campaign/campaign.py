"""What the campaigns of relays share: each is run to its end in a folder of its own, and what it counted is one line of
JSON."""

import json
import shutil
import sys
import tempfile
import time


def run_to_its_end(campaign):
    """What it counted; nothing of it runs any more, whatever happens."""
    try:
        return campaign.run()
    finally:
        campaign.stop()


def report(run, seed, faults):
    """Prints what run(folder) counted. Ends the program with an error, and leaves the folder, if there were any of
    these faults."""
    folder = tempfile.mkdtemp(prefix="tally-campaign-")
    started = time.monotonic()
    counted = run(folder)
    print(json.dumps({**counted, "seconds": round(time.monotonic() - started), "seed": seed}))
    if any(counted[fault] for fault in faults):
        sys.exit(f"the folder {folder} is left as it is")
    shutil.rmtree(folder, ignore_errors=True)
