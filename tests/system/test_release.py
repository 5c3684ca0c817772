"""What `make release` says before it begins; docs/internals/releasing.md."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """A clone, with the files as they are here."""
    clone = tmp_path / "tally"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    for name in ("packaging/release", "CHANGELOG.md", "meson.build"):
        shutil.copy(ROOT / name, clone / name)
    return clone


def release(tree, *options):
    return subprocess.run([tree / "packaging" / "release", *options], capture_output=True, text=True, check=False)


def commit(tree):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--all",
                    "--message", "x"], cwd=tree, check=True)


def test_all_that_is_missing_is_said_at_once(tree):
    build = tree / "meson.build"
    build.write_text(re.sub(r"^  version: '[^']+'", "  version: '9.9.9'", build.read_text(), flags=re.MULTILINE))
    with open(tree / "CHANGELOG.md", "a", encoding="utf-8") as file:
        file.write("\n## [Unreleased]\n- something\n")
    said = release(tree)
    assert said.returncode == 1
    for words in ("not committed", '"## [9.9.9] - YYYY-MM-DD"', "under [Unreleased]", "no folder of 9.9.9"):
        assert words in said.stderr, (words, said.stderr)
    assert not (tree / "build").exists()


def test_a_step_is_run_once_for_a_commit_and_its_failure_is_said(tree):
    text = (tree / "meson.build").read_text()
    version = re.search(r"^  version: '([^']+)'", text, re.MULTILINE)[1]
    (tree / "CHANGELOG.md").write_text(f"## [{version}] - 2026-11-30\n- something\n")
    folder = tree / "tests" / "releases" / f"{version}.tar.xz"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("one")
    subprocess.run(["git", "add", folder], cwd=tree, check=True)
    script = tree / "packaging" / "release"
    steps = 'STEPS = [("good", "x", "echo well"), ("bad", "x", "echo ill; exit 3")]\n'
    script.write_text(re.sub(r"STEPS = \[.*?\n\]\n", steps, script.read_text(), flags=re.DOTALL))
    commit(tree)
    said = release(tree)
    assert said.returncode == 1 and "PASS good" in said.stdout and "FAIL bad" in said.stdout, said
    assert "status 3" in said.stderr
    again = release(tree, "--only", "good")
    assert again.returncode == 0 and "PASS" not in again.stdout and "left: bad" in again.stdout, again
    assert release(tree, "--only", "nothing").returncode == 1


def test_what_a_step_made_is_published_although_a_later_one_failed_first(tree):
    version = re.search(r"^  version: '([^']+)'", (tree / "meson.build").read_text(), re.MULTILINE)[1]
    (tree / "CHANGELOG.md").write_text(f"## [{version}] - 2026-11-30\n- something\n")
    folder, once = tree / "tests" / "releases" / f"{version}.tar.xz", tree.parent / "once"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("one")
    subprocess.run(["git", "add", folder], cwd=tree, check=True)
    script = tree / "packaging" / "release"
    made = "mkdir -p build/deb build/dist build/image && touch build/deb/x.deb build/deb/x.json build/dist/x.tar.gz " \
        "build/dist/x.tgz build/image/x.tar build/image/y.json"
    steps = f'STEPS = [("good", "x", "{made}"), ("later", "x", "[ -e {once} ]")]\n'
    script.write_text(re.sub(r"STEPS = \[.*?\n\]\n", lambda _: steps, script.read_text(), flags=re.DOTALL))
    commit(tree)
    assert release(tree).returncode == 1
    once.touch()
    said = release(tree)
    assert said.returncode == 0 and "has passed every step" in said.stdout, said
    (sums,) = (tree / "build" / "releases").glob("*/publish/SHA256SUMS")
    assert {line.split()[1] for line in sums.read_text().splitlines()} == {
        "x.deb", "x.json", "x.tar.gz", "x.tgz", "x.tar", "y.json"}


def test_each_step_has_a_rule():
    """make does nothing, and says so with status 0, for a phony target that has none."""
    text = (ROOT / "packaging" / "release").read_text(encoding="utf-8")
    targets = {target for words in re.findall(r'"make ([a-z -]+)', text) for target in words.split()}
    assert {"dist", "npm", "image-check"} <= targets
    for target in sorted(targets):
        said = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert said.returncode == 0 and "Nothing to be done" not in said.stdout, (target, said)
