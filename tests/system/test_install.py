"""`make install`: what it puts where, what it says, and what others can build against it. Of other prefixes, each
another configuration, tests/house/configure and `make fresh` know."""

import os
import re
import subprocess

import pytest

from conftest import BIN, ROOT, clean_environment

pytestmark = pytest.mark.skipif(BIN != ROOT / "build" / "bin", reason="only what is released is installed")


def make(*arguments, status=0):
    """In the build folder that is there, which `make build` has made and which stays as it is."""
    done = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == status, done.stdout + done.stderr
    return done


def run_path(program):
    """The folders in which it looks for libraries."""
    lines = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout.splitlines()
    return " ".join(line for line in lines if "(RUNPATH)" in line or "(RPATH)" in line)


def test_make_install_says_in_one_line_where_things_are_and_others_can_build_with_them(daemon, tmp_path):
    image = tmp_path / "image"
    done = make("install", f"DESTDIR={os.path.relpath(image, ROOT)}")
    assert (done.stdout, done.stderr) == (f"tallyd and tally are in {image}/usr/local/bin, libtally beside them\n", "")
    installed = image / "usr" / "local"
    assert (installed / "include" / "tally" / "tally.h").exists()
    for program in ["tally", "tallyd"]:
        assert subprocess.run([installed / "bin" / program, "--version"], capture_output=True, check=True).stdout
        assert "/deps/" not in run_path(installed / "bin" / program)
    (settings,) = installed.rglob("libtally.pc")
    assert str(ROOT) not in settings.read_text()

    # Manual pages, and what completes command lines.
    share = installed / "share"
    commands = re.findall("^= (.*)", (ROOT / "src" / "tally" / "commands.txt").read_text(), re.MULTILINE)
    pages = {path.name for path in (share / "man").glob("man?/*")}
    assert pages >= {f"tally-{name.replace(' ', '-')}.1" for name in commands}
    assert pages >= {"tally.1", "tally-queue.1", "tallyd.8", "tallyd.conf.5", "tally-protocol.7"}
    for shell, path in {
        "bash": "bash-completion/completions/tally",
        "zsh": "zsh/site-functions/_tally",
        "fish": "fish/vendor_completions.d/tally.fish",
    }.items():
        said = subprocess.run([installed / "bin" / "tally", "completion", shell], capture_output=True, check=True)
        assert (share / path).read_bytes() == said.stdout

    # What makes a client of boto3, and commands of the AWS CLI.
    model = share / "tally" / "models" / "tally" / "2026-11-30" / "service-2.json"
    assert model.read_bytes() == (ROOT / "models" / "tally" / "2026-11-30" / "service-2.json").read_bytes()

    # Who looks into json_owned has what that takes, also where the distribution has no yyjson.
    folders = {"PKG_CONFIG_PATH": str(settings.parent), "TALLY_ENDPOINT": daemon.endpoint}
    environment = clean_environment(**folders)
    source = ROOT / "tests" / "fresh" / "json_owned.c"
    program = tmp_path / "json_owned"
    moved = f"--define-variable=prefix={installed}"
    build = 'flags=$(pkg-config "$1" --cflags --libs libtally); gcc -Wall -Werror "$2" -o "$3" $flags -Wl,-rpath,"$4"'
    subprocess.run(["sh", "-ec", build, "sh", moved, source, program, settings.parents[1]], check=True, env=environment)
    said = subprocess.run([program], capture_output=True, text=True, check=True, env=environment).stdout
    assert said == f"{daemon.endpoint}/000000000000/looked-into\n"


def test_a_place_where_nothing_can_be_put_is_an_error_in_words():
    done = make("install", "DESTDIR=/proc/nowhere", status=2)
    assert "can't write to /proc/nowhere/usr/local; be root, or name another folder" in done.stderr
    assert "Traceback" not in done.stderr
