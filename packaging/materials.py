"""What programs are made of, as Debian packages of the system that built them, and a bill of it in CycloneDX."""

import datetime
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]


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


def libraries_of(path):
    """The files that are loaded with it, and the loader itself."""
    for line in output_of("ldd", path).splitlines():
        found = re.search(r"=> (/\S+)|^\s*(/\S+)", line)
        if found:
            yield found[1] or found[2]


# What libmariadb loads when a server asks for that way to log in. The others of its package send a password as it is.
LOGINS = ["caching_sha2_password", "sha256_password", "client_ed25519", "parsec"]


def logins_of(library):
    """Those files, if it is libmariadb."""
    folder = pathlib.Path(library).resolve().parent / "libmariadb3" / "plugin"
    if pathlib.Path(library).name.startswith("libmariadb.so"):
        yield from (path for name in LOGINS if (path := folder / f"{name}.so").exists())


# --- What a program is made of ----------------------------------------------------------------------------------------

# Compiled into our files of these names unless they load the library: files of the packages that it comes from.
COMPILED_IN = [
    ("tallyd", "libllhttp", "/usr/share/llhttp/llhttp.c"),  # C sources, where the distribution has no library
    ("", "libxxhash", "/usr/include/xxhash.h"),  # functions of its header
]


def is_carried(library):
    """Whether we bring it, because the distribution does not have it: that of ./setup, or of our own packages."""
    return re.search(r"/libyyjson\.so\.0$", library) is not None and not re.match(r"(/usr)?/lib/", library)


def yyjson_of_setup(text):
    """The one that stands in build/deps; its version from the changelog of its package."""
    log = ROOT / "build/deps/usr/share/doc/libyyjson0/changelog.Debian.gz"
    version = re.match(r"yyjson \((\S+)\)", output_of("zcat", log))[1]
    return component("library", "libyyjson0", version, scope="required", description=text)


def components_of(said):
    """Those that have files of this system, of which something is said: {path: text}."""
    owners = owners_of(said)
    paragraphs = paragraphs_of(sorted(set(owners.values())))
    return [component("library", owners[file], version_in(paragraphs[owners[file]]), scope="required", description=text)
            for file, text in said.items()]


def parts_of(path):
    """The components of a program or library: what it loads, and what is compiled into it."""
    libraries = list(libraries_of(path))
    said = {library: "loaded at run time" for library in libraries if not is_carried(library)}
    said |= {source: "compiled in" for program, name, source in COMPILED_IN
             if path.name.startswith(program) and not any(f"/{name}." in library for library in libraries)}
    rows = components_of(said)
    return [*rows, yyjson_of_setup("carried in the package")] if any(map(is_carried, libraries)) else rows


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
