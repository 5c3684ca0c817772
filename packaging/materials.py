"""What programs are made of, as Debian packages of the system that built them, and a bill of it in CycloneDX."""

import datetime
import functools
import json
import os
import re
import subprocess
import sys
import uuid


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def names_of(path):
    """Under which dpkg may know the file: /lib is /usr/lib, and libraries are links."""
    real = os.path.realpath(path)
    return [path, real, re.sub("^/usr", "", real)]


def owners_of(paths):
    """{path: the installed package that has the file}"""
    paths = list(paths)
    names = sorted({name for path in paths for name in names_of(path)})
    found = subprocess.run(["dpkg-query", "--search", *names], capture_output=True, text=True).stdout
    owners = {path: re.split("[:,]", packages)[0] for packages, path in
              (line.split(": ") for line in found.splitlines() if not line.startswith("diversion "))}
    for path in paths:
        if not owners.keys() & names_of(path):
            sys.exit(f"packaging: no package has {path}")
    return {path: next(owners[name] for name in names_of(path) if name in owners) for path in paths}


def paragraphs_of(packages):
    """{package: what dpkg says of it}"""
    said = output_of("dpkg-query", "--status", *packages)
    return {text.split("\n")[0].removeprefix("Package: "): text + "\n" for text in said.rstrip("\n").split("\n\n")}


def version_in(paragraph):
    return re.search("^Version: (.*)$", paragraph, re.MULTILINE)[1]


@functools.cache
def owner_of(path):
    """The installed package that has the file: (name, version)."""
    name = owners_of([path])[path]
    return name, version_in(paragraphs_of([name])[name])


def libraries_of(path):
    """The files that are loaded with it, and the loader itself."""
    for line in output_of("ldd", path).splitlines():
        found = re.search(r"=> (/\S+)|^\s*(/\S+)", line)
        if found:
            yield found[1] or found[2]


# --- The bill ---------------------------------------------------------------------------------------------------------


def seconds():
    """The time in what is built."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def time_text():
    return datetime.datetime.fromtimestamp(seconds(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache
def distribution():
    with open("/etc/os-release") as file:
        return re.search(r'^ID="?([a-z]+)', file.read(), re.MULTILINE)[1]


def component(kind, name, version, **more):
    reference = f"pkg:deb/{distribution()}/{name}@{version.replace('+', '%2B')}"
    return {"type": kind, "bom-ref": reference, "name": name, "version": version, "purl": reference} | more


def bill(components, dependencies):
    """Its text: `components` by their reference, and what each thing of ours depends on."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(sorted(components)))}",
        "version": 1,
        "metadata": {"timestamp": time_text()},
        "components": [components[reference] for reference in sorted(components)],
        "dependencies": sorted(dependencies, key=lambda row: row["ref"]),
    }
    return json.dumps(document, indent=2) + "\n"
