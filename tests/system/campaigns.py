"""How slices of campaigns are run: the programs of tests/campaign and other folders, beside the daemon under test."""

import json
import subprocess

from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment


def find_program(name, suite="campaign"):
    """Beside the daemon where its build folder has one, else that of the release or the development build."""
    release = ROOT / "build" / "release"
    beside = [] if "asan" in BIN.parts else [BIN.parent]  # that build leaves them out; an old one may be there
    paths = [folder / "tests" / suite / name for folder in (*beside, release, ROOT / "build" / "dev")]
    if not paths[0].exists() and (release / "build.ninja").exists():
        subprocess.run(["ninja", "-C", release, "--quiet", f"tests/{suite}/{name}"], check=False)
    found = [path for path in paths if path.exists()]
    assert found, f"{release / 'tests' / suite / name} isn't built: run make all"
    return found[0]


def run_program(program, tmp_path, *options, seconds=100):
    """Runs it to its end; returns its exit status and what it counted."""
    if WRAPPER:  # it starts the daemon itself, by one path
        wrapped = tmp_path / "wrapped"
        wrapped.write_text(f'#!/bin/sh\nexec {" ".join(WRAPPER)} "{BIN / "tallyd"}" "$@"\n')
        wrapped.chmod(0o755)
    tallyd = tmp_path / "wrapped" if WRAPPER else BIN / "tallyd"
    command = [program, "--tallyd", tallyd, "--folder", tmp_path / "data", *options]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=seconds * PATIENCE,
        env=clean_environment(), check=False
    )
    assert done.stdout, done.stderr
    print(done.stdout, done.stderr)
    return done.returncode, json.loads(done.stdout)
