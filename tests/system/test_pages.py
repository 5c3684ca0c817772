"""README, tutorials, how-tos and pages about problems: each command is typed as it stands, and prints what is shown."""

import pathlib
import re
import shutil

import pytest

from clients import distribution, mysql_server, needs, needs_celery
from conftest import ROOT
from pages import Page, is_shown
from postgres import Postgres

# Pages that need other machines or systems, and who does what they say.
TYPED_ELSEWHERE = {
    "backup": "test_archive.py, tests/campaign/backup_campaign.py",
    "containers": "packaging/image_check.py",
    "damage": "test_salvage.py",
    "export": "test_export.py",
    "monitoring": "test_monitoring.py",
    "moving-in": "test_moving_in.py",
    "packages": "packaging/check.py",
    "relay-to-sqs": "test_guides.py",
    "systemd": "test_systemd.py, packaging/check.py",
    "tally-actions-in-boto3": "test_service_model.py",
    "run-a-cluster": "tests/fresh/failover.py, test_cluster_nodes.py",
    "several-postgresql-servers": "tests/fresh/failover.py",
    "testing-with-tally": "test_npm.py, test_tally_testing.py",
    "upgrading": "test_upgrade.py",
}

PAGES = [ROOT / "README.md", *sorted(path for folder in ("tutorials", "how-to", "problems")
                                     for path in (ROOT / "docs" / folder).glob("*.md")
                                     if path.stem not in TYPED_ELSEWHERE)]

# What is not typed here, and who does it.
ELSEWHERE = {
    "./run": "test_run.py",
    "./setup && make build": "tests/fresh/fresh.py",
    "export PATH=$PWD/build/bin:$PATH": "all pages are typed with such a PATH",
    "tallyd --data ./data": "docs/tutorials/first-batch.md",
    "./test": "everybody who runs this test",
    "make check": "a suite of ./test",
    "make deb": "packaging/check.py",
    "make image": "packaging/image_check.py",
}


GO_SOURCES = pathlib.Path("/usr/share/gocode")
GO_PACKAGES = {"aws/aws-sdk-go-v2/service/sqs": "golang-github-aws-aws-sdk-go-v2-dev",
               "lib/pq": "golang-github-lib-pq-dev"}
JARS = [pathlib.Path("/usr/share/java") / name for name in ("postgresql.jar", "gson.jar")]


def toolchains(text):
    """Those of the page's that are there. ./setup test brings what Go needs, and not what Java needs."""
    if shutil.which("go") and all((GO_SOURCES / "src/github.com" / name).exists() for name in GO_PACKAGES):
        yield "go"
    elif "```console go" in text and distribution() == "debian 12":
        pytest.fail(f"{' or '.join(['golang-go', *GO_PACKAGES.values()])} is missing: run ./setup test")
    if shutil.which("java") and all(jar.exists() for jar in JARS):
        yield "java"


@pytest.fixture
def mariadb():
    with mysql_server() as server:
        yield server


@pytest.fixture
def safe_server(tmp_path):
    """tallyd keeps no log in a PostgreSQL without fsync, as that of the other pages is."""
    running = Postgres(tmp_path / "postgres", is_alike=True, fsync="on").start()
    yield running
    running.stop("immediate")
    shutil.rmtree(running.folder, ignore_errors=True)


def install_modules(modules, text):
    """What npm would have installed. A link to our client would look for the SDK beside the client itself."""
    ours = ROOT / "clients" / "javascript"
    there = ROOT / "tests" / "system" / "node_modules"
    if "@tally-queue/client" not in text:
        modules.symlink_to(there)
        return
    modules.mkdir()
    for name in there.iterdir():
        (modules / name.name).symlink_to(name)
    shutil.copytree(ours, modules / "@tally-queue" / "client", ignore=shutil.ignore_patterns("node_modules"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_can_be_typed_as_it_stands(path, tmp_path, request):
    text = path.read_text()
    folder = tmp_path / "page"
    folder.mkdir()
    install_modules(folder / "node_modules", text)
    environment, maria = {}, None
    if "$ aws " in text:
        needs(pathlib.Path("/usr/bin/aws").exists(), "awscli")
    if "celery" in text:
        needs_celery()
    if "psql" in text:
        server = request.getfixturevalue("safe_server" if "log = postgres" in text else "server")
        environment = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "tally"}
    if "mariadb " in text:
        maria = request.getfixturevalue("mariadb")
        environment |= maria.environment()
    if 'client("tally"' in text:
        environment["AWS_DATA_PATH"] = str(ROOT / "models")
    if "import tally\n" in text:
        environment["PYTHONPATH"] = str(ROOT / "clients" / "python")
    if "$ go " in text:  # without modules, so that nothing is fetched
        environment |= {"GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "GOFLAGS": "",
                        "GOCACHE": str(ROOT / "build/go/cache")}
    starts_itself = "$ tallyd " in text
    address = None if starts_itself else f"127.0.0.1:{request.getfixturevalue('daemon').port}"
    try:
        with Page(path, folder, address, **environment) as page:
            if maria is not None:
                page.places.append(("3306", str(maria.port)))
            page.type_all(ELSEWHERE, list(toolchains(text)))
    finally:
        if "PGPORT" in environment:
            server.sql("DROP DATABASE IF EXISTS shop WITH (FORCE)")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("shown, printed, claim", [
    ("a", "a\n", True),
    ("a", "b\n", False),
    ("a", "a\nb\n", False),
    ("", "a\n", False),
    ("a … c", "a b c", True),
    ("a … c", "a b d", False),
    ("a\n…\nc", "a\nb\nb\nc", True),
    ("a\n…\nc", "a\nc", True),
    ("a\n…\nc", "a\nb", False),
    ("a\n…", "a\nb\nc", True),
    ("…\nc", "a\nb\nc", True),
    ("…\nc", "a\nb", False),
    ("00654c53-d38a-8347-b542-d1b55e8ed6a7 (x)", "00000000-0000-863b-bb35-1633cbe741fe (x)", True),
    ("00654c53-d38a-8347-b542-d1b55e8ed6a7", "night-42", False),
    ("at 2026-11-30 06:54:03 UTC", "at 2027-01-01 00:00:00 UTC", True),
    ("at 2026-11-30 06:54:03 UTC", "at noon", False),
])
def test_what_is_shown_is_compared(shown, printed, claim):
    assert is_shown(shown, printed) is claim


@pytest.mark.parametrize("text, wrong", [
    ("```console\n$ echo a\na\n$ echo b\nb\n```", None),
    ("```console\n$ a=7\n$ cd /; echo $a \\\n>   b\n7 b\n$ pwd\n/\n```", None),
    ("```console\n$ false\n$ echo $?\n1\n```", None),
    ("```sh a.sh\necho 127.0.0.1:9324\n```\n\n```console\n$ sh a.sh\n127.0.0.1:9324\n```", None),
    ("```console server\n$ echo ready; sleep 60\nready\n```", None),
    ("```console\n$ echo a\nb\n```", "--- printed\na"),
    ("```console\n$ false\n```", "status 1"),
    ("```console\n$ exit 0\n```", "the shell ended"),
    ("```sh\n./run   # all of it\n```", None),
    ("```sh\n./run-away\n```", "no test types ./run-away"),
    ("```python\nprint(1)\n```", "no test runs this block of python"),
])
def test_a_page_that_is_wrong_is_found(text, wrong, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(text)
    with Page(path, tmp_path, "127.0.0.1:1") as page:
        if wrong is None:
            page.type_all(ELSEWHERE)
        else:
            with pytest.raises(AssertionError, match=re.escape(wrong)):
                page.type_all(ELSEWHERE)
