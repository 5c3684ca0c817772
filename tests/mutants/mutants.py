#!/usr/bin/python3
"""Changes the program at random places and asks whether the tests see it.

A mutant is the program with one small change in src/core, src/log, src/api or src/engine: a comparison turned, a
statement left out, a true made false, && made ||, + made -, a constant one larger. One that doesn't compile, or that
compiles to the same bytes, does not count. The unit tests that contain the changed file, the fuzz targets and the
simulators judge the others, fast ones first. A failure, a crash, a timeout, another history (tests/history/run) or
memory that isn't freed says that it was seen. What nobody sees is printed as a survivor: a test is missing, or the
change makes no difference. same.txt lists those of the second kind with the reason; they are left out.

The sources are never touched: the changed file is compiled in build/mutants. The objects of build/release are linked to
one shared library for each mutant, which the test programs load. For a large run each judge is traced once on the
unchanged program, so that a mutant is shown only to the judges that call the changed function.

Left out: assertions, functions that do nothing but assert (*_check, *_check_all, check_*), what the preprocessor reads,
and the numbers that a capacity is set to: an array that grows by a little more than it did holds the same.
"""

import argparse
import collections
import concurrent.futures
import fcntl
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTATED = ["core", "log", "api", "engine"]
LIBRARIES = ["base", "match", "core", "log", "auth", "api", "engine"]  # what the shared library of a mutant is made of
WANTED = 0.95
SEEDS = 300
FUZZED = 6000  # inputs of each fuzz target; first a tenth
LONG_S = 2  # a unit test that takes longer is asked in short only, where it can be
# What a judge leaves behind, in the files that these variables name: tests/support/history.h, heap.c.
TRACES = {"TALLY_HISTORY": "history", "TALLY_UNFREED": "memory that is not freed"}
TRACED_FROM = 100  # with so many mutants it pays to find out first which judge calls which function
MEMORY_MAX = 8 << 30
FILE_MAX = 1 << 30

# --- mutations --------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d[\w.]*
    |<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
SWAPS = {
    "==": ["!="],
    "!=": ["=="],
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "&&": ["||"],
    "||": ["&&"],
    "+=": ["-="],
    "-=": ["+="],
    "++": ["--"],
    "--": ["++"],
    "true": ["false"],
    "false": ["true"],
}
TYPES = set("struct union enum const static unsigned signed int char bool void double float long short size_t".split())
CONTROL = set("if for while switch do return goto case default else break continue".split())
ASSERTIONS = {"ASSERT", "static_assert"}

Mutation = collections.namedtuple("Mutation", "path line start end replacement before after is_inside")


class Token:
    def __init__(self, match):
        self.text, self.start, self.end = match.group(), match.start(), match.end()
        self.is_skipped = False  # in an assertion or a checker
        self.is_inside = False  # in the body of a function
        self.begins = False  # a statement

    def is_word(self):
        return self.text[0].isalpha() or self.text[0] == "_"

    def ends_operand(self):
        return self.text in (")", "]") or (self.text[0].isalnum() or self.text[0] == "_") and self.text != "return"


def read_tokens(text):
    tokens = [Token(match) for match in TOKEN.finditer(text)]
    tokens = [token for token in tokens if not token.text.lstrip().startswith(("//", "/*", "#"))]
    mark_functions(tokens)
    mark_statements(tokens)
    return tokens


def find_close(tokens, at):
    """The bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in "([{") - (tokens[i].text in ")]}")
        if depth == 0:
            return i
    return len(tokens) - 1


def mark_functions(tokens):
    at = head = 0
    while at < len(tokens):
        text = tokens[at].text
        if text in (";", "}"):
            head = at + 1
        if text == "{" and tokens[at - 1].text == ")":
            close = find_close(tokens, at)
            body = tokens[at : close + 1]
            name = next((tokens[i - 1].text for i in range(head + 1, at) if tokens[i].text == "("), "")
            is_checker = re.match(r"check_|.*_check(_all)?$", name) and any(token.text == "ASSERT" for token in body)
            for token in body:
                token.is_inside = True
                token.is_skipped = bool(is_checker)
            at, head = close, close + 1
        at += 1
    for at, token in enumerate(tokens):
        if token.text in ASSERTIONS and at + 1 < len(tokens) and tokens[at + 1].text == "(":
            for skipped in tokens[at : find_close(tokens, at + 1) + 1]:
                skipped.is_skipped = True


def mark_statements(tokens):
    heads = []  # for each open bracket: the word before it
    begins = False
    for at, token in enumerate(tokens):
        token.begins = begins and token.is_inside
        begins = token.text in (";", "{", "}", "else", "do")
        if token.text in ("(", "[", "{"):
            heads.append(tokens[at - 1].text if at > 0 else "")
        elif token.text in (")", "]", "}") and heads:
            begins = heads.pop() in ("if", "for", "while", "switch") or begins
        if any(head in ("if", "for", "while", "switch") for head in heads[-1:]) and token.text != "{":
            begins = False  # the semicolons of a for


def end_of_statement(tokens, at):
    """Its semicolon; None if a bracket that was open before closes first."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in "([{") - (tokens[i].text in ")]}")
        if depth < 0:
            return None
        if depth == 0 and tokens[i].text == ";":
            return i
    return None


def is_declaration(tokens, at):
    first, second = tokens[at], tokens[at + 1]
    return first.text in TYPES or first.text.endswith("_t") or (first.is_word() and second.is_word())


def can_be_left_out(tokens, at):
    """The semicolon of the statement that begins here, if it is a call, an assignment or a jump."""
    if tokens[at].text in (";", "{", "}") or is_declaration(tokens, at):
        return None
    end = end_of_statement(tokens, at)
    if end is None or (tokens[at].text in CONTROL and end > at + 1) or tokens[at + 1].text == ":":
        return None
    return end if tokens[at].text not in ("else", "do") else None


def is_room(tokens, start, at):
    """Is the number at `at` part of what an array's capacity is set to? How much room there is in advance costs memory,
    but nobody is told. The 0 that an empty array is known by is another thing, and so is a limit."""
    end = end_of_statement(tokens, start) or at
    words = [token.text for token in tokens[start:end]]
    is_set = "=" in words[1 : at - start] and words[words.index("=", 1) - 1].endswith("capacity")
    return is_set and words[at - start] != "0" and "<" not in words


def raise_constant(tokens, at):
    """One more; nothing if it is an array's size or the room it gets, the size of no bytes, or has a sign: -1 and -2
    are one sign."""
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", tokens[at].text)
    before, behind = tokens[at - 1].text, tokens[at + 1].text
    if match is None or (match.group(1) == "0" and behind == "}"):
        return []
    if before == "-" and not tokens[at - 2].ends_operand():
        return []
    start = at
    while start > 0 and not tokens[start].begins and tokens[start].text not in ";{}":
        start -= 1
    if (before, behind) == ("[", "]") and tokens[at + 2].text in ";=,[" and is_declaration(tokens, start):
        return []
    if is_room(tokens, start, at):
        return []
    value = match.group(1)
    raised = hex(int(value, 16) + 1) if value[:2] in ("0x", "0X") else str(int(value) + 1)
    return [raised + match.group(2)]


def replacements(tokens, at):
    """What may stand in the place of this token."""
    text = tokens[at].text
    if text in SWAPS:
        return SWAPS[text]
    if text in "+-" and at > 0 and tokens[at - 1].ends_operand():
        return ["-" if text == "+" else "+"]
    if text == "!":
        return [""]
    return raise_constant(tokens, at) if text[0].isdigit() and at + 2 < len(tokens) else []


def squeeze(text):
    return " ".join(text.split())


def list_mutations(path):
    text = (ROOT / path).read_text()
    tokens = read_tokens(text)

    def mutation(start, end, replacement, is_inside):
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        after = text[first:start] + replacement + text[end:last]
        line = text.count("\n", 0, start) + 1
        return Mutation(path, line, start, end, replacement, squeeze(text[first:last]), squeeze(after), is_inside)

    for at, token in enumerate(tokens):
        if token.is_skipped:
            continue
        for replacement in replacements(tokens, at):
            yield mutation(token.start, token.end, replacement, token.is_inside)
        end = can_be_left_out(tokens, at) if token.begins else None
        if end is not None:
            end = tokens[end].end
            yield mutation(token.start, end, ";" + "\n" * text.count("\n", token.start, end), True)


def read_same():
    """(path, before, after) of the mutants that are known to be the same program. They stand in blocks of lines: path,
    "- before", "+ after", and why."""
    known = set()
    file = ROOT / "tests/mutants/same.txt"
    text = re.sub(r"(?m)^#.*\n", "", file.read_text())
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.split("\n")
        if lines == [""]:
            continue
        if len(lines) < 4 or lines[1][:2] != "- " or lines[2][:2] != "+ ":
            sys.exit(f"{file}: not path, '- before', '+ after' and a reason: {lines[0]}")
        known.add((lines[0].strip(), squeeze(lines[1][2:]), squeeze(lines[2][2:])))
    return known


# --- building ---------------------------------------------------------------------------------------------------------


def run(arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, check=True, **options).stdout


class Build:
    """The objects and programs of build/release, and what is linked from them anew."""

    def __init__(self, release, folder):
        self.release = release
        self.folder = folder
        self.programs = self.folder / "programs"
        self.programs.mkdir(parents=True, exist_ok=True)
        self.lock_file = open(folder / "lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"mutants: another run works in {folder}; wait for it, or name another folder: --folder")
        self.commands = {}
        self.archives = {f"src/lib{name}.a" for name in LIBRARIES}
        for row in json.loads((release / "compile_commands.json").read_text()):
            path = os.path.relpath(release / row["file"], ROOT)
            if os.path.dirname(row["output"]) in {archive + ".p" for archive in self.archives}:
                self.commands[path] = (shlex.split(row["command"]), row["output"])
        self.symbols = {}
        self.originals = {}
        self.lock = threading.Lock()
        outside = self.outside("src/libarrow_api.so") + self.outside("src/libarrow_log.so")
        self.outside_libraries = list(dict.fromkeys(outside))
        found = {os.path.dirname(word) for word in self.outside_libraries if word.startswith("/") and ".so" in word}
        self.library_path = sorted(found)

    def link_command(self, target):
        return shlex.split(run(["ninja", "-C", self.release, "-t", "commands", "-s", target]).strip().split("\n")[-1])

    def outside(self, target):
        """The libraries from outside that a target is linked with."""
        words = self.link_command(target)
        return [word for word in words if re.match(r"-l|/.*\.so", word) or word == "-pthread"]

    def compile(self, path, text, folder, *options):
        """The object of `path` with this text, without what debuggers read; None if it doesn't compile."""
        folder.mkdir(parents=True, exist_ok=True)
        words, _ = self.commands[path]
        words = words[1:] if os.path.basename(words[0]) == "ccache" else list(words)
        source, output = folder / "source" / path, folder / "object.o"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        kept, skip = [], 0
        for word in words:
            if skip or word in ("-MQ", "-MF", "-o", "-c"):
                skip = 0 if skip else 1
            elif word not in ("-g", "-MD"):
                kept.append(word)
        # The same name in what __FILE__ says, wherever the folder is.
        kept += ["-g0", "-w", f"-ffile-prefix-map={source.parent}=.", "-o", str(output), "-c", str(source), *options]
        done = subprocess.run(kept, cwd=self.release, capture_output=True, text=True, check=False)
        return output.read_bytes() if done.returncode == 0 else None

    def original(self, path, folder):
        """The object of the unchanged file."""
        if path not in self.originals:
            made = self.compile(path, (ROOT / path).read_text(), folder)
            if made is None:
                sys.exit(f"{path} does not compile as it is")
            self.originals[path] = made
        return self.originals[path]

    def link_library(self, folder, path=None):
        """libmutant.so of all objects, folder/object.o in the place of that of `path`."""
        target = ["-o", str(folder / "libmutant.so")]
        run(
            ["cc", "-shared", "-Wl,-S", *target, *self.objects(folder, path), *self.outside_libraries], cwd=self.release
        )

    def objects(self, folder, path):
        return [str(folder / "object.o") if name == path else output for name, (_, output) in self.commands.items()]

    def link_program(self, target, folder):
        """The test program, which loads libmutant.so from where LD_LIBRARY_PATH says. None if its linker wraps
        functions: those of a shared library it can't."""
        if any("--wrap" in word for word in self.link_command(target)):
            return None
        return self.link(target, self.programs, [f"-L{folder}", "-lmutant"])

    def link_whole(self, target, folder, path=None):
        """The test program with all objects in it, folder/object.o in the place of that of `path`."""
        return self.link(target, folder, [*self.objects(folder, path), *self.outside_libraries])

    def link(self, target, into, libraries):
        words = [word for word in self.link_command(target) if word not in self.archives]
        program = into / os.path.basename(target)
        words[words.index("-o") + 1] = str(program)
        run([*words, "-Wl,-S", *libraries], cwd=self.release)
        return program

    def contains(self, target, path):
        """Does the program, as it was built, have something of that file?"""
        with self.lock:
            if target not in self.symbols:
                self.symbols[target] = set(run(["nm", "-j", "--defined-only", self.release / target]).split())
            if path not in self.symbols:
                found = run(["nm", "-g", "-j", "--defined-only", self.release / self.commands[path][1]])
                self.symbols[path] = set(found.split())
        return not self.symbols[target].isdisjoint(self.symbols[path])


# --- tracing ----------------------------------------------------------------------------------------------------------


class Trace:
    """Which functions each judge calls, so that a mutant is shown only to those that run it. Each file that has a
    mutant is compiled once more, with a call of trace.c at the beginning of each function."""

    def __init__(self, build, paths):
        self.build = build
        self.paths = paths
        self.folder = build.folder / "trace"
        self.library = self.folder / "libmutant.so"

    def make(self, jobs):
        """The library, and self.functions: {offset in it: (path, line where the function begins)}."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            traced = list(pool.map(self.compile, self.paths))
        objects = traced + [output for path, (_, output) in self.build.commands.items() if path not in self.paths]
        hooks = self.folder / "hooks.o"
        run(["cc", "-O2", "-fPIC", "-c", str(ROOT / "tests/mutants/trace.c"), "-o", str(hooks)])
        run(["cc", "-shared", "-o", str(self.library), *objects, str(hooks), *self.build.outside_libraries],
            cwd=self.build.release)

    def compile(self, path):
        folder = self.folder / path.replace("/", "_")
        options = ["-finstrument-functions", "-g1", f"-ffile-prefix-map={folder}/source=."]
        if self.build.compile(path, (ROOT / path).read_text(), folder, *options) is None:
            sys.exit(f"{path} does not compile as it is")
        return str(folder / "object.o")

    def read_functions(self):
        rows = [row.split() for row in run(["nm", "--defined-only", str(self.library)]).splitlines()]
        offsets = [row[0] for row in rows if len(row) == 3 and row[1] in "tT"]
        places = subprocess.run(["addr2line", "-e", str(self.library)], input="\n".join(offsets), capture_output=True,
                                text=True, check=True).stdout.splitlines()
        self.functions = {}
        for offset, place in zip(offsets, places):
            file, _, line = place.partition(":")
            line = line.split()[0] if line else ""
            index = file.find("src/")
            if file[index:] in self.paths and line.isdigit():
                self.functions[int(offset, 16)] = (file[index:], int(line))

    def calls_of(self, judge):
        """The (path, line) of the functions that the judge calls; None if it does not run traced."""
        file = self.folder / "calls"
        with open(file, "wb") as calls:
            calls.truncate(self.library.stat().st_size + (1 << 20))
        os.chmod(file, 0o666)  # some tests look from inside as somebody with fewer rights
        os.environ["MUTANTS_TRACE"] = str(file)
        fault = ask(judge, self.build, self.folder, 1800)
        del os.environ["MUTANTS_TRACE"]
        seen = file.read_bytes()
        return None if fault else sorted({place for offset, place in self.functions.items() if seen[offset]})


def trace(build, judges, jobs, library, paths):
    """judge.calls for each judge that loads the library, as far as it is about these files. What was found is written
    down."""
    key = hashlib.sha256("\n".join([library, *paths]).encode()).hexdigest()
    known_file = build.folder / "calls.json"
    known = json.loads(known_file.read_text()) if known_file.exists() else {}
    if known.get("library") != key:
        known = {"library": key}
    made = Trace(build, paths)
    for judge in judges:
        if judge.program is None:
            continue
        program = hashlib.sha256(judge.program.read_bytes()).hexdigest()
        name = f"{judge.name} {judge.scale} {program}"  # a test that has changed calls others
        if name not in known:
            if not made.library.exists() or not hasattr(made, "functions"):
                made.make(jobs)
                made.read_functions()
            known[name] = made.calls_of(judge)
            known_file.write_text(json.dumps(known))
        judge.calls = None if known[name] is None else {tuple(place) for place in known[name]}


# --- judging ----------------------------------------------------------------------------------------------------------


class Judge:
    """A program that ends with another status than 0 if it sees the mutant."""

    def __init__(self, target, arguments=(), scale=None):
        self.target, self.arguments, self.scale = target, list(arguments), scale
        self.program = None  # None: to be linked for each mutant (Build.link_program)
        self.seconds = None  # what it takes on the unchanged program
        self.traces = None  # what it leaves on the unchanged program; None: something that is not the same each time
        self.calls = None  # (path, line) of the functions that it calls; None: not known
        salvage = " with salvage" if "--salvage" in self.arguments else ""
        self.name = os.path.basename(target) + ("" if scale in (None, 1) else " in short") + salvage


def limit_child():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ask(judge, build, folder, timeout, path=None):
    """None if all is well; otherwise how it ended, or which of its traces is another."""
    program = judge.program or build.link_whole(judge.target, folder, path)
    scratch = tempfile.mkdtemp(prefix="mutant-")  # a short name: sockets stand there
    os.chmod(scratch, 0o755)  # some tests look from inside as somebody with fewer rights
    traces = {name: str(folder / name.lower()) for name in TRACES}
    for file in traces.values():
        pathlib.Path(file).unlink(missing_ok=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([str(folder), *build.library_path])}
    environment.update(traces, TMPDIR=scratch, TALLY_TEST_SCALE=str(judge.scale or 1))
    environment["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"  # so that what is freed counts as free at once
    child = subprocess.Popen(
        [program, *judge.arguments],
        cwd=scratch,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=limit_child,
    )
    try:
        status = child.wait(timeout)
        if status != 0:
            return f"status {status}"
        return find_difference(judge.traces, read_traces(folder))
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def read_traces(folder):
    files = [folder / name.lower() for name in TRACES]
    return [file.read_text().strip() if file.exists() else None for file in files]


def find_difference(wanted, found):
    for name, one, other in zip(TRACES.values(), wanted or [], found):
        if one not in (None, other):
            return f"another {name}"
    return None


def list_judges(build, pattern, seeds):
    judges = []
    for source in sorted((ROOT / "tests/unit").glob("*_test.c")):
        target = f"tests/unit/{source.stem}"
        if not (build.release / target).exists():
            continue
        if re.search(r'"support/scale\.h"|"scenario\.h"|"dependency\.h"', source.read_text()):
            judges.append(Judge(target, scale=0.1))
        judges.append(Judge(target, scale=1))
    for target in sorted((ROOT / "tests/fuzz").glob("fuzz_*.c")):
        target = f"tests/fuzz/{target.stem.replace('fuzz_', 'drive_')}"
        if (build.release / target).exists():
            judges += [Judge(target, [str(count)]) for count in (FUZZED // 10, FUZZED)]
    judges.append(Judge("tests/sim/sim", ["--seeds", str(seeds), "--jobs", "1"]))
    judges.append(Judge("tests/sim/sim", ["--seeds", str(seeds // 3), "--jobs", "1", "--salvage"]))
    judges.append(Judge("tests/sim/sim_pools", ["--seeds", str(seeds)]))
    judges.append(Judge("tests/sim/sim_pools", ["--seeds", str(seeds // 10), "--salvage", "on"]))
    return [judge for judge in judges if re.search(pattern, judge.name)]


def prepare(build, judges, jobs, paths):
    """Links the judges and measures each on the unchanged program; those that don't accept it are left out. What was
    measured is written down, so that this takes its time once for each build. `paths`: the files that have a mutant, if
    it is to be found out who calls their functions."""
    folder = build.folder / "unchanged"
    folder.mkdir(exist_ok=True)
    build.link_library(folder)
    library = hashlib.sha256((folder / "libmutant.so").read_bytes()).hexdigest()
    times_file = build.folder / "judges.json"
    times = json.loads(times_file.read_text()) if times_file.exists() else {}
    linked = {}
    for judge in judges:
        if judge.target not in linked:
            linked[judge.target] = build.link_program(judge.target, folder)
        judge.program = linked[judge.target]
        program = judge.program or build.link_whole(judge.target, folder)
        program = hashlib.sha256(program.read_bytes()).hexdigest()
        key = " ".join([library, program, str(judge.scale), *judge.arguments])
        if times.get(key) is None:
            started = time.monotonic()
            fault = ask(judge, build, folder, 900)
            if fault:
                print(f"left out: {judge.name} does not accept the unchanged program ({fault})", flush=True)
                continue
            seconds, traces = time.monotonic() - started, read_traces(folder)
            ask(judge, build, folder, 900)
            traces = [one if one == other else None for one, other in zip(traces, read_traces(folder))]
            times[key] = [seconds, traces]
            times_file.write_text(json.dumps(times))
        judge.seconds, judge.traces = times[key]
    judges = sorted((judge for judge in judges if is_worth_it(judge, judges)), key=lambda judge: judge.seconds)
    if paths:
        trace(build, judges, jobs, library, paths)
    return judges


def is_worth_it(judge, judges):
    """Does it accept the unchanged program, and not take long for what another one sees as well?"""
    has_short = judge.scale == 1 and any(other.target == judge.target and other.scale != 1 for other in judges)
    return judge.seconds is not None and (judge.seconds < LONG_S or not has_short)


class Trial:
    """Takes mutations in their order until enough are judged, some at a time."""

    def __init__(self, build, judges, mutations, wanted):
        self.build, self.judges, self.mutations, self.wanted = build, judges, collections.deque(mutations), wanted
        self.lock = threading.Lock()
        self.busy = self.judged = self.seen = self.broken = self.same_object = 0
        self.survivors = []
        self.begins = {}

    def function_of(self, mutation):
        """The (path, line) of the function that it stands in: of those that begin before it, the last."""
        begins = self.begins.setdefault(mutation.path, sorted(
            {line for judge in self.judges for path, line in judge.calls or () if path == mutation.path}))
        return mutation.path, max((line for line in begins if line <= mutation.line), default=0)

    def runs(self, judge, mutation):
        """Does the judge call the function? One that nobody calls has no place: whoever calls the function before it
        is asked in vain."""
        if judge.calls is None or not mutation.is_inside:
            return self.build.contains(judge.target, mutation.path)
        return self.function_of(mutation) in judge.calls

    def judges_of(self, mutation):
        stem = pathlib.Path(mutation.path).stem
        found = [judge for judge in self.judges if self.runs(judge, mutation)]
        return sorted(found, key=lambda judge: stem not in judge.name)  # its own tests first

    def judge(self, mutation, folder):
        """Who saw it; None: nobody. The object is there."""
        self.build.link_library(folder, mutation.path)
        for judge in self.judges_of(mutation):
            fault = ask(judge, self.build, folder, 10 * judge.seconds + 5, mutation.path)
            if fault:
                return f"{judge.name}: {fault}"
        return None

    def build_mutant(self, mutation, folder):
        """False if it is none."""
        text = (ROOT / mutation.path).read_text()
        unchanged = self.build.original(mutation.path, folder)
        changed = self.build.compile(
            mutation.path, text[: mutation.start] + mutation.replacement + text[mutation.end :], folder
        )
        with self.lock:
            self.broken += changed is None
            self.same_object += changed == unchanged
        return changed is not None and changed != unchanged

    def tell(self, mutation, verdict):
        place = f"{mutation.path}:{mutation.line}"
        print(f"{verdict or 'SURVIVED':40} {place}\n    - {mutation.before}\n    + {mutation.after}", flush=True)

    def work(self, folder):
        while True:
            with self.lock:
                if not self.mutations:
                    return
                is_enough = self.judged + self.busy >= self.wanted
                mutation = None if is_enough else self.mutations.popleft()
                self.busy += not is_enough
                if is_enough and self.busy == 0:
                    return
            if mutation is None:  # those that are being judged may turn out to be none
                time.sleep(0.2)
                continue
            is_one = self.build_mutant(mutation, folder)
            verdict = self.judge(mutation, folder) if is_one else None
            with self.lock:
                self.busy -= 1
                if is_one:
                    self.judged += 1
                    self.seen += verdict is not None
                    self.tell(mutation, verdict)
                    if verdict is None:
                        self.survivors.append(mutation)

    def run(self, jobs):
        folders = [self.build.folder / f"worker{i}" for i in range(jobs)]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        threads = [threading.Thread(target=self.work, args=(folder,), daemon=True) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def choose(only, known):
    """All mutations of a file, of a line of it, or of all files below a folder; without those that are known to be the
    same program."""
    place, _, line = (only or "").partition(":")
    chosen = ROOT / place
    paths = [
        str(path.relative_to(ROOT))
        for folder in MUTATED
        for path in sorted((ROOT / "src" / folder).rglob("*.c"))
        if chosen == path or chosen in path.parents
    ]
    found = [mutation for path in paths for mutation in list_mutations(path)]
    left = [mutation for mutation in found if (mutation.path, mutation.before, mutation.after) not in known]
    if not line:
        return left
    return [mutation for mutation in left if mutation.line == int(line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=40, help="how many to judge (40)")
    parser.add_argument("--seed", type=int, help="chooses them (one that was not there before)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of the simulators ({SEEDS})")
    parser.add_argument("--only", metavar="PLACE", help="mutants of that FOLDER, FILE or FILE:LINE only")
    parser.add_argument("--judges", default="", metavar="PATTERN", help="only the test programs that match")
    parser.add_argument("--build", default="build/release", help="the build folder (build/release)")
    parser.add_argument("--folder", default="build/mutants", help="where mutants are made (build/mutants)")
    parser.add_argument("--list", action="store_true", help="print all mutations, judge none")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    mutations = choose(arguments.only, read_same())
    if arguments.list:
        for mutation in mutations:
            print(f"{mutation.path}:{mutation.line}\n    - {mutation.before}\n    + {mutation.after}")
        return 0
    random.Random(seed).shuffle(mutations)
    paths = sorted({mutation.path for mutation in mutations}) if arguments.count >= TRACED_FROM else []
    build = Build((ROOT / arguments.build).resolve(), (ROOT / arguments.folder).resolve())
    trial = Trial(
        build,
        prepare(build, list_judges(build, arguments.judges, arguments.seeds), arguments.jobs, paths),
        mutations,
        arguments.count,
    )
    print(f"seed {seed}: {arguments.count} of {len(mutations)} mutants, {len(trial.judges)} judges", flush=True)
    trial.run(arguments.jobs)
    share = trial.seen / trial.judged if trial.judged else 0
    print(
        f"{trial.judged} judged, {trial.seen} seen ({100 * share:.1f} %), {len(trial.survivors)} survived; "
        f"not counted: {trial.broken} that don't compile, {trial.same_object} of the same object code"
    )
    for mutation in trial.survivors:
        trial.tell(mutation, None)
    return 0 if trial.judged and share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
