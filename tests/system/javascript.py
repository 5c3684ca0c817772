"""Programs for Node.js that use clients/javascript, in a folder with the package as npm would install it."""

import json
import os
import shutil
import subprocess

from conftest import BIN, PATIENCE, ROOT, clean_environment

PACKAGE = ROOT / "clients" / "javascript"
HERE = ROOT / "tests" / "system"
PG = ROOT / "build" / "examples" / "node_modules" / "pg"


def make_project(folder):
    """Returns the folder. The programs of these tests and the examples are there, too."""
    modules = folder / "node_modules"
    manifest = json.loads((PACKAGE / "package.json").read_text())
    for name in ["package.json", *manifest["files"]]:
        target = modules / manifest["name"] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (PACKAGE / name).is_dir() else shutil.copy)(PACKAGE / name, target)
    (modules / "@aws-sdk").symlink_to(HERE / "node_modules" / "@aws-sdk")
    (modules / "pg").symlink_to(PG)
    (modules / "mysql2").symlink_to(HERE / "node_modules" / "mysql2")
    for program in [*HERE.glob("client_js*.mjs"), *(PACKAGE / "examples").glob("*.mjs")]:
        shutil.copy(program, folder)
    return folder


def start(project, program, *arguments, **environment):
    usual = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.Popen(["node", program, *arguments], cwd=project, env=clean_environment(**usual | environment),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(project, program, *arguments, **environment):
    """What it printed."""
    process = start(project, program, *arguments, **environment)
    out, err = process.communicate(timeout=120 * PATIENCE)
    assert process.returncode == 0, out + err
    return out
