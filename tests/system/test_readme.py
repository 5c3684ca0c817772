"""What README.md tells a newcomer to type, word for word."""

import os
import re
import subprocess

from conftest import BIN, PATIENCE, ROOT, clean_environment


def commands_of(first, last):
    """The shell commands of the README's sections from the one heading to the other."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index(first) : text.index(last)]
    blocks = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    assert blocks
    return "set -e\n" + "\n".join(blocks)


def test_the_commands_about_order_and_about_exactly_once_work(daemon, tmp_path):
    done = subprocess.run(
        ["sh", "-c", commands_of("## Order, at last", "## Five problems")],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        cwd=tmp_path,
        env=clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines.index("post-17: first!") < lines.index("post-17: second!") and "post-18: hello" in lines
    assert "why         It waits for batch 'night-44', which has not completed." in lines
    assert lines.count("write the report") == 1 and lines[-1] == "paid: order 17"
    assert done.stderr.count("a duplicate of message") == 1
