#!/usr/bin/python3
"""Draws the pictures of docs/ui, from a shop that has had a bad hour: tests/system/ui_pictures.py [FOLDER]"""

import pathlib
import sys
import tempfile

from clock import Clock
from conftest import ROOT, Daemon
from shop import Shop
from test_ui import PICTURES, Dashboard


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
        browser = Dashboard("ui_pages.mjs")
        pages = {name: page.replace("<held>", shop.ids["held"]) for name, page in PICTURES.items()}
        browser.run(daemon, "pictures", shop.ids, pages=pages, folder=str(pathlib.Path(folder).resolve()))
        browser.stop()
        shop.close()
        daemon.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
