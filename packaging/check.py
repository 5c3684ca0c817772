#!/usr/bin/python3
"""The Debian packages, from the build to the purge.

    make deb-check                                # as root; builds twice: takes half an hour on two cores
    make deb-check CHECK='--packages build/deb'   # those that are there; nothing is built
    make deb-check CHECK='--packages build/deb --trees debian-13'

They are built twice, in folders of other names, and compared byte by byte. They are looked through: lintian, the
hardening, run paths, the unit. Then systemd boots minimal trees of Debian 12 and 13. In each they are installed, used,
upgraded from an older version, removed and purged. Where nothing can be booted, or no package reached, that is skipped.

Standard output: a line for each step, PASS or FAIL, and at the end "N passed, N failed". All that was said is in
build/deb-check/log. Exit status 0: nothing failed."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

from steps import ROOT, Failed, Steps, last_line
from machine import Machine, can_be_booted
from fresh import Skipped, Tree

FOLDER = ROOT / "build" / "deb-check"
DEBIAN = ROOT / "packaging" / "debian"
NAMES = ["tallyd", "tally", "libtally0", "libtally-dev"]
BUILDERS = ["gcc", "libc6-dev", "pkg-config"]  # what the tests of the packages need beside them
EXPOSURE_MAX = 1.5
OLDER = "0.0.9-1"
# What `hardening-check` may say: of a library that it is no program; of what it was told to pass over; and it finds a
# probe of the stack only where it is a loop, which few functions need.
HARDENED = re.compile(r"yes\b|no, [^(]*\(ignored\)$|unknown, no -fstack-clash-protection")
# Not whether the flow of control is marked as protected: on Debian 12 the files that start a C program are not, and the
# linker then leaves the mark out. The instructions are looked for instead, of that and of the probes.
NOT_MARKED = ["--nocfprotection"]
INSTRUCTIONS = {"amd64": [r"\bendbr64\b", r"\borq +\$0x0,"], "arm64": [r"\b(bti|paciasp)\b"]}
OWN_FOLDERS = {"$ORIGIN/../lib/tallyd", "$ORIGIN/../lib/tally", "$ORIGIN/tally"}


def run(*command, **more):
    return STEPS.run(*command, **more)


# --- The build --------------------------------------------------------------------------------------------------------


def build_twice():
    digests = []
    for name in ["first", "and-a-second"]:
        result = FOLDER / name
        environment = os.environ | {"BUILD_TREE": str(FOLDER / f"tree-{name}" / "tally")}
        run(ROOT / "packaging" / "build", result, env=environment)
        files = sorted([*result.glob("*.deb"), *result.glob("*.json")])
        digests.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
    different = [name for name in digests[0] if digests[0][name] != digests[1].get(name)]
    if different or len(digests[0]) != len(digests[1]):
        raise Failed(f"they differ: {', '.join(different)} (diffoscope says where)")
    return f"{len(digests[0])} files are the same"


# --- What is in them --------------------------------------------------------------------------------------------------


class Packages:
    def __init__(self, folder):
        self.folder = folder
        self.unpacked = FOLDER / "unpacked"

    def file(self, name):
        (path,) = [path for path in self.folder.glob(f"{name}_*.deb")]
        return path

    def unpack(self):
        for name in NAMES:
            run("dpkg-deb", "-x", self.file(name), self.unpacked)
        return f"{sum(self.file(name).stat().st_size for name in NAMES) // 1024} KiB in four packages"

    def ours(self):
        """The programs and the library; not what is carried."""
        return [self.unpacked / "usr/bin/tallyd", self.unpacked / "usr/bin/tally",
                *self.unpacked.glob("usr/lib/*/libtally.so.*.*")]

    def unit(self):
        (path,) = self.unpacked.glob("**/systemd/system/tallyd.service")
        return path


def lintian(packages):
    (changes,) = packages.folder.glob("*.changes")
    run("lintian", "--allow-root", "--fail-on", "error,warning", changes)
    rows = "".join(path.read_text() for path in DEBIAN.glob("*.lintian-overrides")).splitlines()
    reasons = [row for row in rows if row.startswith("# ")]
    return f"no error, no warning; {len(rows) - len(reasons)} overrides, each with its reason"


def hardening(packages):
    for path in packages.ours():
        said = run("hardening-check", *NOT_MARKED, path)
        weak = [line for line in said.splitlines()[1:] if not HARDENED.match(line.split(": ", 1)[-1])]
        if weak:
            raise Failed(f"{path.name}: {weak[0].strip()}")
        if "BIND_NOW" not in run("readelf", "-d", path):
            raise Failed(f"{path.name} is not bound at once")
        code = subprocess.run(["objdump", "-d", path], capture_output=True, text=True).stdout
        for instruction in INSTRUCTIONS.get(run("dpkg", "--print-architecture").strip(), []):
            if not re.search(instruction, code):
                raise Failed(f"{path.name} has no instruction like {instruction}")
    return "all that hardening-check knows"


def run_paths(packages):
    found = set()
    for path in packages.ours():
        found |= set(re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", run("readelf", "-d", path)))
    if found - OWN_FOLDERS:
        raise Failed(f"run paths {found - OWN_FOLDERS}")
    return "none" if not found else "only folders of their own packages"


def exposure(packages):
    said = run("systemd-analyze", "security", "--offline=yes", packages.unit())
    level = float(re.search(r"Overall exposure level for tallyd.service: (\S+)", said)[1])
    if level > EXPOSURE_MAX:
        raise Failed(f"{level}, and at most {EXPOSURE_MAX} is allowed")
    return f"{level} of at most {EXPOSURE_MAX}"


def materials(packages):
    (path,) = packages.folder.glob("*.cdx.json")
    document = json.loads(path.read_text())
    names = {row["name"] for row in document["components"]}
    missing = {*NAMES, "libc6", "libcurl4", "libpq5", "libsqlite3-0", "libmariadb3"} - names
    if missing - {"libcurl4t64", "libcurl4"}:
        raise Failed(f"it lacks {missing}")
    return f"{len(names)} components"


LOOKS = [
    ("unpack", Packages.unpack),
    ("lintian", lintian),
    ("hardening", hardening),
    ("run paths", run_paths),
    ("the unit's exposure", exposure),
    ("bill of materials", materials),
]

# --- On a machine -----------------------------------------------------------------------------------------------------


def fill(tree, packages):
    """Makes it, with the packages in it, and in apt's cache all that they need."""
    made = tree.build("systemd,debconf")
    tree.carry_network()
    folder = tree.root / "root" / "new"
    folder.mkdir()
    for name in NAMES:
        shutil.copy(packages.file(name), folder)
    tree.run(f"apt-get update -q && apt-get install -y -q --download-only /root/new/*.deb {' '.join(BUILDERS)}", 900)
    make_older(packages, tree.root / "root" / "old")
    shutil.copytree(DEBIAN, tree.root / "root" / "source" / "debian")
    shutil.copytree(ROOT / "tests" / "fresh", tree.root / "root" / "source" / "tests" / "fresh")
    return made


def make_older(packages, folder):
    """The same with an older version's number."""
    folder.mkdir()
    for name in ["tallyd", "tally"]:
        parts = FOLDER / f"older-{name}"
        shutil.rmtree(parts, ignore_errors=True)
        run("dpkg-deb", "-R", packages.file(name), parts)
        control = parts / "DEBIAN" / "control"
        control.write_text(re.sub(r"^Version: .*", f"Version: {OLDER}", control.read_text(), flags=re.MULTILINE))
        run("dpkg-deb", "--root-owner-group", "-b", parts, folder)


def install(machine, folder, names=("tallyd", "tally"), others=()):
    packages = " ".join([*(f"/root/{folder}/{name}_*.deb" for name in names), *others])
    machine.run(f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {packages}")


def installed(machine):
    install(machine, "old")
    machine.run("systemctl is-active tallyd && systemctl is-enabled tallyd")
    status = machine.run("systemctl show -p StatusText --value tallyd").strip()
    if not status.startswith("serving "):
        raise Failed(f"its status is {status!r}")
    return status


def understood(machine):
    said = machine.run("systemd-analyze verify --man=no tallyd.service")
    if said.strip():
        raise Failed(last_line(said))
    return "systemd knows all of it"


def is_whose(machine):
    said = machine.run("stat -c '%U:%G %a' /etc/tally/tallyd.conf /var/lib/tally; "
                       "stat -c %U /proc/$(systemctl show -p MainPID --value tallyd)")
    if said.split() != ["root:tally", "640", "tally:tally", "700", "tally"]:
        raise Failed(f"owners and modes are {said.split()}")
    return "the configuration is root:tally 640, the data the user's own"


def readme(machine):
    page = (ROOT / "README.md").read_text()
    block = "\n".join(re.findall(r"^\$ (.*)", re.search(r"```console\n(.*?)```", page, re.DOTALL)[1], re.MULTILINE))
    said = machine.run(f"set -e\ncd /tmp\n{block}", 120)
    completions = re.findall(r'^\{"batch": ?"night-42", ?"status": ?"succeeded".*', said, re.MULTILINE)
    if len(completions) != 1:
        raise Failed(f"{len(completions)} completion messages, and at last: {last_line(said)}")
    return completions[0][:80]


def snapshot(machine):
    """Its child is another process under the same sandbox: it lowers its priority, which ~@resources would forbid."""
    machine.run("sed -i 's/^#snapshot-bytes.*/snapshot-bytes = 1/' /etc/tally/tallyd.conf && systemctl restart tallyd")
    machine.run("tally queue create many && seq 2000 | tally send many - --lines", 120)
    machine.wait_until("ls /var/lib/tally/*/*snapshot* && ! ls /var/lib/tally/*/*.new")
    return "one was written"


def reload(machine):
    before = machine.run("systemctl show -p MainPID --value tallyd")
    machine.run("systemctl reload tallyd && systemctl is-active tallyd && tally health")
    if machine.run("systemctl show -p MainPID --value tallyd") != before:
        raise Failed("it was started anew")
    return "the same process"


def watchdog(machine):
    """A loop that stands still is ended and started again."""
    drop_in = "/run/systemd/system/tallyd.service.d/watchdog.conf"
    machine.run(f"mkdir -p {os.path.dirname(drop_in)} && printf '[Service]\\nWatchdogSec=2\\n' >{drop_in} && "
                "systemctl daemon-reload && systemctl restart tallyd && tally health")
    pid = machine.run("systemctl show -p MainPID --value tallyd").strip()
    machine.run(f"sleep 5 && kill -STOP {pid}")
    machine.wait_until(f"[ $(systemctl show -p MainPID --value tallyd) -gt 0 ] && "
                       f"[ $(systemctl show -p MainPID --value tallyd) != {pid} ] && tally health", 120)
    machine.run(f"rm {drop_in} && systemctl daemon-reload && systemctl restart tallyd")
    return "a stopped process was replaced"


def upgrade(machine):
    machine.run("tally queue create kept && tally send kept 'from the older one'")
    pid = machine.run("systemctl show -p MainPID --value tallyd")
    install(machine, "new")
    machine.run("systemctl is-active tallyd")
    version = machine.run("dpkg-query -W -f '${Version}' tallyd")
    if version == OLDER or machine.run("systemctl show -p MainPID --value tallyd") == pid:
        raise Failed("the unit was not restarted by the new one")
    if "from the older one" not in machine.run("tally receive kept --wait 10"):
        raise Failed("the message is not there")
    if "snapshot-bytes = 1" not in machine.run("grep ^snapshot-bytes /etc/tally/tallyd.conf"):
        raise Failed("the configuration was changed")
    return f"from {OLDER} to {version}: the message is there, and so is what the administrator wrote"


def tests_of_debian(machine):
    """As autopkgtest runs them: from the root of the source, all that they depend on is installed."""
    install(machine, "new", NAMES, BUILDERS)
    rows = re.findall(r"^Tests: (.*)", (DEBIAN / "tests" / "control").read_text(), re.MULTILINE)
    for name in rows:
        machine.run(f"cd /root/source && AUTOPKGTEST_TMP=$(mktemp -d) debian/tests/{name}")
    return f"{', '.join(rows)}: passed"


def removed(machine):
    machine.run("DEBIAN_FRONTEND=noninteractive apt-get remove -y tallyd")
    machine.run("! systemctl is-active tallyd && ls /var/lib/tally/000000000000 && [ -e /etc/tally/tallyd.conf ]")
    return "data and configuration stay"


def purge(machine, answer):
    terminal = machine.terminal("apt-get purge -y tallyd", DEBIAN_FRONTEND="teletype")
    if terminal.read_until(r"Remove the messages in /var/lib/tally\?[^\[]*\[yes/no\]", 60) is None:
        raise Failed("it asked nothing")
    os.write(terminal.descriptor, f"{answer}\n".encode())
    if terminal.end() != 0:
        raise Failed(f"the purge failed; {last_line(terminal.said)}")


def purged(machine):
    purge(machine, "no")
    machine.run("ls /var/lib/tally/000000000000 && [ ! -e /etc/tally/tallyd.conf ]")
    install(machine, "new")
    machine.run("DEBIAN_FRONTEND=noninteractive apt-get purge -y tallyd && ls /var/lib/tally/000000000000")
    install(machine, "new")
    machine.wait_until("tally receive kept --wait 20 | grep 'from the older one'", 60)
    purge(machine, "yes")
    machine.run("[ ! -e /var/lib/tally ]")
    return "no keeps the messages, nobody to ask keeps them, yes removes them"


ON_MACHINE = [
    ("apt install ./tallyd… ./tally…", installed),
    ("the unit is understood", understood),
    ("who owns what", is_whose),
    ("the README's first example", readme),
    ("a snapshot in the sandbox", snapshot),
    ("reload", reload),
    ("the watchdog", watchdog),
    ("upgrade", upgrade),
    ("debian/tests", tests_of_debian),
    ("remove", removed),
    ("purge asks", purged),
]

# --- The whole --------------------------------------------------------------------------------------------------------


def check_on_machine(name, packages):
    reason = can_be_booted()
    if reason is not None:
        print(f"skipped: no machine can be booted here: {reason}")
        return
    tree = Tree(name, FOLDER)
    try:
        if STEPS.take(f"a minimal {name}", lambda: fill(tree, packages)):
            use(tree.root)
    except Skipped as skipped:
        print(f"skipped: {name}: {skipped}")
    finally:
        tree.remove()


def use(root):
    try:
        with Machine(root, FOLDER / "machine", STEPS.log) as machine:
            print("      systemd has booted it: the sandbox of the unit is in force", flush=True)
            for what, action in ON_MACHINE:  # each begins where the one before it has ended
                if not STEPS.take(what, lambda: action(machine)):
                    break
    except Failed as failure:
        STEPS.fail("a machine", failure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", metavar="FOLDER", help="look at these, build none")
    parser.add_argument("--trees", metavar="NAME", nargs="*", default=["debian-12", "debian-13"])
    given = parser.parse_args()
    if given.packages is None:
        STEPS.take("two builds are the same", build_twice)
    packages = Packages(pathlib.Path(given.packages) if given.packages else FOLDER / "first")
    for what, action in LOOKS:
        STEPS.take(what, lambda: action(packages))
    for name in given.trees:
        check_on_machine(name, packages)
    STEPS.end()


if __name__ == "__main__":
    STEPS = Steps(FOLDER)
    main()
