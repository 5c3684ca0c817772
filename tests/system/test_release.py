"""What `make release` says before it begins, and what it leaves if something fails: docs/internals/releasing.md."""

import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = re.search(r"^  version: '([^']+)'", (ROOT / "meson.build").read_text(), re.MULTILINE)[1]
MADE = "mkdir -p build/deb build/dist build/image && touch build/deb/x.deb build/deb/x.json build/dist/x.tar.gz " \
    "build/dist/x.tgz build/image/x.tar build/image/y.json"


@pytest.fixture
def tree(tmp_path):
    """A repository with what a release is made by, as it is here, and with no other file: each run clones it."""
    tree = tmp_path / "tally"
    (tree / "packaging").mkdir(parents=True)
    (tree / "tests" / "releases").mkdir(parents=True)
    for name in (".gitignore", "packaging/release", "packaging/version", "CHANGELOG.md", "meson.build"):
        shutil.copy(ROOT / name, tree / name)
    git(tree, "init", "--quiet", "--initial-branch", "main")
    commit(tree)
    return tree


def git(tree, *words):
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "tag.gpgSign=false", *words]
    return subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True).stdout


def commit(tree):
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "x")


def prepare(tree, *steps):
    """All is as it must be, and these are the steps: names and commands."""
    (tree / "CHANGELOG.md").write_text(f"## [{RELEASE}] - 2026-11-30\n- something\n")
    for ending in ("tar.xz", "json"):
        (tree / "tests" / "releases" / f"{RELEASE}.{ending}").write_text("one")
    script = tree / "packaging" / "release"
    rows = f"STEPS = {[(name, 'x', command) for name, command in steps]!r}\n"
    script.write_text(re.sub(r"STEPS = \[\n.*?\n\]\n", lambda _: rows, script.read_text(), flags=re.DOTALL))
    commit(tree)


def release(tree, *options, **more):
    environment = {"DEBEMAIL": "x@example.org", **os.environ}
    return subprocess.run([tree / "packaging" / "release", *options], capture_output=True, text=True, check=False,
                          env=environment, **more)


def refused(tree, *words):
    said = release(tree)
    assert said.returncode == 1 and not said.stdout, said
    for text in words:
        assert text in said.stderr, (text, said.stderr)
    assert not (tree / "build").exists()


def test_all_that_is_missing_is_said_at_once(tree):
    build = tree / "meson.build"
    build.write_text(re.sub(r"^  version: '[^']+'", "  version: '9.9.9'", build.read_text(), flags=re.MULTILINE))
    with open(tree / "CHANGELOG.md", "a", encoding="utf-8") as file:
        file.write("\n## [Unreleased]\n- something\n")
    git(tree, "checkout", "--quiet", "-b", "other")
    refused(tree, "this is other, and a release is of main", "not committed", '"## [9.9.9] - YYYY-MM-DD"',
            "under [Unreleased]", "no folder of 9.9.9")


def test_a_tag_that_is_there_is_never_set_again(tree, tmp_path):
    prepare(tree, ("good", "true"))
    git(tree, "tag", f"v{RELEASE}")
    refused(tree, f"there is a tag v{RELEASE} already")
    git(tree, "clone", "--quiet", "--bare", tree, tmp_path / "origin.git")
    git(tree, "tag", "--delete", f"v{RELEASE}")
    git(tree, "remote", "add", "origin", tmp_path / "origin.git")
    refused(tree, f"origin has a tag v{RELEASE} already")
    git(tree, "push", "--quiet", "origin", f":refs/tags/v{RELEASE}")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "of somebody else")
    git(tree, "push", "--quiet", "origin", "main")
    git(tree, "reset", "--quiet", "--hard", "HEAD~")
    refused(tree, "origin's main has commits that are not here")
    git(tree, "remote", "set-url", "origin", tmp_path / "nowhere")
    refused(tree, "origin can't be asked")


def test_what_is_to_be_pushed_goes_together_or_not_at_all(tree, tmp_path):
    prepare(tree, ("good", MADE))
    git(tree, "clone", "--quiet", "--bare", tree, tmp_path / "origin.git")
    git(tree, "remote", "add", "origin", tmp_path / "origin.git")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "is not pushed yet")
    said = release(tree)
    assert said.returncode == 0, said
    tag, push = re.search(r"by hand: (git tag .*), (git push .*), and the files", said.stdout).groups()
    git(tree, *tag.replace(" -s ", " ").split()[1:])
    git(tree, *push.split()[1:])
    there = git(tmp_path / "origin.git", "rev-parse", "main", f"v{RELEASE}").split()
    assert there == [git(tree, "rev-parse", "HEAD").strip()] * 2


@pytest.mark.parametrize("heading, words", [
    (f"## [Unreleased]\n\n## [{RELEASE}] - 2026-11-30\n", f"the packages would be of {RELEASE}+"),
    (f"## [{RELEASE}] - 2026-02-30\n", "2026-02-30 is no date"),
    (f"## [{RELEASE}] - {datetime.date.today() + datetime.timedelta(days=9)}\n", "is yet to come"),
])
def test_the_heading_of_the_changelog_is_that_of_the_packages(tree, heading, words):
    prepare(tree, ("good", "true"))
    (tree / "CHANGELOG.md").write_text(heading)
    commit(tree)
    refused(tree, words)


def test_who_publishes_is_asked_for_before_hours_have_passed(tree):
    prepare(tree, ("good", "true"), ("deb", "true"))
    without = {name: value for name, value in os.environ.items() if name != "DEBEMAIL"}
    script = tree / "packaging" / "release"
    said = subprocess.run([script], capture_output=True, text=True, check=False, env=without)
    assert said.returncode == 1 and "DEBEMAIL is not set" in said.stderr and not said.stdout, said
    empty = subprocess.run([script], capture_output=True, text=True, check=False, env=without | {"DEBEMAIL": ""})
    assert empty.stderr == said.stderr
    assert subprocess.run([script, "--only", "good"], capture_output=True, env=without, check=False).returncode == 0


def test_a_step_that_needs_root_is_refused_at_the_start(tree):
    prepare(tree, ("good", "true"), ("fresh", "true"))
    nobody = ["unshare", "--user"] if os.geteuid() == 0 else []  # who has the files of root all the same
    if nobody and subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the kernel allows no user namespaces")
    command = [*nobody, tree / "packaging" / "release"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 1 and said.stderr == "release: these steps need root: fresh\n", said
    assert subprocess.run([*command, "--only", "good"], capture_output=True, check=False).returncode == 0


def test_a_step_is_run_once_for_a_commit_and_its_failure_is_said(tree):
    prepare(tree, ("good", "echo well"), ("bad", "echo ill; exit 3"))
    said = release(tree)
    assert said.returncode == 1 and "PASS good" in said.stdout and "FAIL bad" in said.stdout, said
    assert "status 3" in said.stderr
    again = release(tree, "--only", "good")
    assert again.returncode == 0 and "PASS" not in again.stdout and "left: bad" in again.stdout, again
    assert "passed before: good" in again.stdout
    assert release(tree, "--only", "nothing").returncode == 1


def test_what_a_step_could_not_try_is_said_by_name(tree):
    lines = ["ubuntu-24.04  skipped: this machine has no keys", "skipped: no container can be run here: no crun",
             "setup: debian 12 has no package x; the tests that use it will be skipped",
             "ok     pages               12 passed   0 failed   3 skipped     9 s,     1 of a core"]
    quiet = ["2 of 3 trees are good; skipped: 1, failed steps: 0",
             "ok     unit                12 passed   0 failed   0 skipped     9 s,     1 of a core"]
    (tree / "said").write_text("\n".join([*quiet, *lines]) + "\n")
    prepare(tree, ("fresh", "cat said"))
    said = release(tree)
    assert re.findall("not here: (.*)", said.stdout) == lines, said


def test_what_a_step_made_is_published_although_a_later_one_failed_first(tree):
    once = tree.parent / "once"
    prepare(tree, ("good", MADE), ("later", f"[ -e {once} ]"))
    assert release(tree).returncode == 1
    once.touch()
    said = release(tree)
    assert said.returncode == 0 and "has passed every step" in said.stdout, said
    (sums,) = (tree / "build" / "releases").glob("*/publish/SHA256SUMS")
    assert {line.split()[1] for line in sums.read_text().splitlines()} == {
        "x.deb", "x.json", "x.tar.gz", "x.tgz", "x.tar", "y.json"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_leaves_no_step_behind(tree, number):
    began, cleaned = tree.parent / "began", tree.parent / "cleaned"
    code = f"import pathlib, time\ntry:\n  pathlib.Path('{began}').touch(); time.sleep(60)\n" \
        f"finally: time.sleep(0.3); pathlib.Path('{cleaned}').touch()"
    (tree / "step.py").write_text(code)
    prepare(tree, ("long", "/usr/bin/python3 -B step.py; true"))
    run = subprocess.Popen([tree / "packaging" / "release"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(began.exists)
    run.send_signal(number)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 1 and "long was ended early: it is due again" in err and "PASS" not in out, (out, err)
    assert "Traceback" not in err and cleaned.exists()
    assert not list((tree / "build" / "releases").glob("*/*.passed"))


def test_a_second_run_does_not_take_the_clone_from_under_the_first(tree):
    began, goes_on = tree.parent / "began", tree.parent / "goes-on"
    waits = f"touch {began}; while [ ! -e {goes_on} ]; do sleep 0.05; done; test -e meson.build && {MADE}"
    prepare(tree, ("long", waits))
    first = subprocess.Popen([tree / "packaging" / "release"], stdout=subprocess.PIPE, text=True)
    wait_until(began.exists)
    said = release(tree)
    assert said.returncode == 1 and "another run works in" in said.stderr, said
    first.kill()  # what it has started still works there
    first.wait()
    assert "another run works in" in release(tree).stderr
    goes_on.touch()
    deadline = time.monotonic() + 20
    while (said := release(tree)).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "has passed every step" in said.stdout, said


def test_the_folder_of_a_release_is_made_by_the_command_that_is_named():
    path = ROOT / "tests" / "releases" / "folder.py"
    said = subprocess.run([path], capture_output=True, text=True, check=False)
    assert said.returncode != 0 and "VERSION TALLYD" in said.stderr, said


def test_each_step_has_a_rule():
    """make does nothing, and says so with status 0, for a phony target that has none."""
    text = (ROOT / "packaging" / "release").read_text(encoding="utf-8")
    targets = {target for words in re.findall(r'"make ([a-z -]+)', text) for target in words.split()}
    assert {"dist", "npm", "image-check"} <= targets
    for target in sorted(targets):
        said = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert said.returncode == 0 and "Nothing to be done" not in said.stdout, (target, said)
