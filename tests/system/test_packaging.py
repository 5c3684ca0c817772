"""What the Debian packages are made of, as far as that takes no build of them: `make deb-check` does the rest."""

import re
import shutil
import subprocess

import pytest

from conftest import BIN, ROOT

pytestmark = pytest.mark.skipif(BIN != ROOT / "build" / "bin", reason="only what is released is packaged")

DEBIAN = ROOT / "packaging" / "debian"
SAMPLE = ROOT / "build" / "release" / "src" / "tallyd.conf"
EXPOSURE_MAX = 1.5


def print_config(*arguments):
    """Every key and its value, as tallyd prints them."""
    done = subprocess.run([BIN / "tallyd", *arguments, "--print-config"], capture_output=True, text=True, check=True)
    return {line.split(" = ")[0].split(" =")[0].strip(): line.split("=", 1)[1].rsplit(";", 1)[0].strip()
            for line in done.stdout.splitlines()}


def test_the_sample_configuration_has_every_key_with_its_default(tmp_path):
    defaults = print_config()
    assert print_config("--config", SAMPLE) == defaults | {"data": "/var/lib/tally"}
    uncommented = tmp_path / "all.conf"
    uncommented.write_text(re.sub(r"^#([a-z-]+ =)", r"\1", SAMPLE.read_text(), flags=re.MULTILINE))
    keys = re.findall(r"^([a-z-]+) =", uncommented.read_text(), re.MULTILINE)
    assert sorted(keys) == sorted(defaults)
    assert print_config("--config", uncommented) == defaults | {"data": "/var/lib/tally"}
    assert max(map(len, SAMPLE.read_text().splitlines())) <= 80


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_the_unit_is_as_closed_as_it_is_promised():
    command = ["systemd-analyze", "security", "--offline=yes", DEBIAN / "tallyd.service"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze is too old")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    exposure = float(re.search(r"Overall exposure level for tallyd.service: (\S+)", done.stdout)[1])
    assert exposure <= EXPOSURE_MAX


def test_the_unit_lets_do_what_tallyd_does():
    unit = (DEBIAN / "tallyd.service").read_text()
    lines = unit.splitlines()
    assert "SystemCallErrorNumber=EPERM" in lines
    assert not any(line.startswith("SystemCallFilter=~") and "@resources" in line for line in lines)
    assert not any(line.startswith("ProcSubset=") for line in lines)
    assert "Wants=network-online.target time-sync.target" in lines
    assert "TimeoutStartSec=infinity" in lines


def test_the_scripts_of_the_packages_are_shell():
    for script in [*DEBIAN.glob("*.post*"), ROOT / "packaging" / "build", ROOT / "setup"]:
        subprocess.run(["sh", "-n", script], check=True)


def test_each_package_of_the_control_file_has_its_files():
    paragraphs = (DEBIAN / "control").read_text().strip().split("\n\n")
    packages = [re.search(r"^Package: (.*)$", paragraph, re.MULTILINE)[1] for paragraph in paragraphs[1:]]
    assert packages == ["tallyd", "tally", "libtally0", "libtally-dev"]
    for name in packages:
        assert (DEBIAN / f"{name}.install").read_text().strip()
