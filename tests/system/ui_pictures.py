#!/usr/bin/python3
"""Draws the pictures of docs/ui, from a shop that has had a bad hour: tests/system/ui_pictures.py [FOLDER]"""

import pathlib
import sys
import tempfile

from clock import Clock
from conftest import ROOT, Daemon
from shop import Shop
from test_ui import Browser

PAGES = {
    "overview": "#/",
    "queues": "#/queues",
    "queue": "#/queue/receipts",
    "message": "#/message/<held>",
    "dead-letters": "#/dead-letters",
    "groups": "#/groups",
    "group": "#/groups?queue=orders.fifo&group=customer-17",
    "batches": "#/batches",
    "batch": "#/batch/night-42",
    "in-flight": "#/in-flight",
    "schedules": "#/schedules",
    "relays": "#/relays",
    "relay": "#/relay/payments",
    "pools": "#/pools",
    "pool": "#/pool/couriers?ticket=ada",
    "activity": "#/activity",
    "server": "#/server",
    "find": "#/find?q=customer-17",
}


def main(folder=ROOT / "docs/ui"):
    clock = Clock()
    clock.set(-3610)
    with tempfile.TemporaryDirectory() as data:
        daemon = Daemon(data)
        with clock.around():
            daemon.start()
        shop = Shop(daemon, clock)
        shop.live_an_hour()
        shop.live_on()
        browser = Browser()
        pages = {name: page.replace("<held>", shop.ids["held"]) for name, page in PAGES.items()}
        browser.run(daemon, "pictures", shop.ids, pages=pages, folder=str(pathlib.Path(folder).resolve()))
        browser.stop()
        shop.close()
        daemon.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
