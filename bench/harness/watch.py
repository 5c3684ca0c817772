"""Watching one daemon through a long run: once a second what it holds in memory and on the disk, and what its load has
done."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from harness import machine
from harness.document import filled
from harness.servers import RunFailed

MIB = 1 << 20
DISK_FACTOR, DISK_MORE = 2.5, 256 * MIB  # the bound of the disk: so many times what lives, and so much
RECORDS_MAX = 1 << 30  # bytes of the records of a run


def anonymous_of(pid):
    """Bytes that no file backs; what a process shares with its child is divided between them."""
    found = re.search(r"Pss_Anon:\s+(\d+) kB", machine.read(f"/proc/{pid}/smaps_rollup"))
    return int(found.group(1)) * 1024 if found else machine.anonymous_memory_of(pid)


def memory_with_children_of(pid):
    """Of a process and of what it has forked. The children are listed first: one that begins afterwards isn't there for
    anybody. Where one ends in between, its parent has been counted with half of what they shared, so this may be less
    than what the parent has."""
    children = machine.children_of(pid)
    return anonymous_of(pid) + sum(map(anonymous_of, children))


def disk_of(folder):
    """Bytes of blocks that the files of a folder have."""
    used = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                used += os.stat(os.path.join(path, name)).st_blocks * 512
    return used


def metrics_of(port):
    """The sums of all metrics over their labels."""
    sums = {}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
        for line in reply.read().decode().splitlines():
            found = re.match(r"(\w+)(?:\{.*\})? ([0-9.e+]+)$", line)
            if found:
                sums[found.group(1)] = sums.get(found.group(1), 0) + float(found.group(2))
    return sums


class Watch:
    """Samples of a server, as a list of dicts."""

    def __init__(self, server):
        self.server = server
        self.samples = []
        self.started_s = time.monotonic()

    def now_s(self):
        return time.monotonic() - self.started_s

    def take(self, phase, told=None):
        """One sample; `told` is what the load has said of itself."""
        pid = self.server.process.pid
        metrics = metrics_of(self.server.port)
        live = metrics["tally_disk_live_bytes"]
        memory = machine.anonymous_memory_of(pid)
        sample = {
            "s": round(self.now_s(), 2), "phase": phase, "memory": memory,
            "memory_with_child": max(memory, memory_with_children_of(pid)),
            "disk": disk_of(self.server.data), "live": live, "disk_max": DISK_FACTOR * live + DISK_MORE,
            "state": metrics["tally_memory_bytes"], "messages": metrics["tally_messages"],
            "in_flight": metrics["tally_messages_in_flight"],
            "files": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")),
            "stolen_s": machine.stolen_s(), "server_cpu_s": machine.tree_cpu_s(pid), **(told or {}),
        }
        self.samples.append(sample)
        return sample

    def load_run(self, phase, command, tell):
        """Runs a load that tells of itself each second, and takes a sample each time; what it reports at its end."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as load:
            try:
                result = self.follow(phase, load.stdout, tell)
            finally:
                load.kill()
            problem = load.stderr.read().strip()
        if result is None:
            raise RunFailed(f"{phase}: {problem[:500] or 'the load ended'}; the server: {self.server.log_tail()}")
        self.take(phase)
        return result

    def follow(self, phase, lines, tell):
        for line in lines:
            told = json.loads(line)
            if "mode" in told:
                return told
            seconds = told.pop("seconds")
            sample = self.take(phase, told)
            tell(f"{phase}, {seconds:.0f} s: {sample['messages']:,.0f} messages, "
                 f"{sample['memory'] / MIB:,.0f} MiB of memory, {sample['disk'] / MIB:,.0f} MiB on disk")
        return None


def results_write(folder, name, samples, svg):
    """The samples, for whoever wants to look closer, and the chart."""
    with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(samples, file)
    with open(os.path.join(folder, f"{name}.svg"), "w", encoding="utf-8") as file:
        file.write(svg)


def in_folders(program, where, run):
    """What run(folder for data, folder for records) returns. The data stays where the run fails, and only there.
    Records are in memory where that can be: written back to the disk they would disturb the daemon's syncs."""
    os.makedirs(where, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{program}-", dir=os.path.abspath(where))
    has_room = (os.access("/dev/shm", os.W_OK)
                and os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize > RECORDS_MAX)
    shared = "/dev/shm" if has_room else folder
    try:
        with tempfile.TemporaryDirectory(prefix="tally-record-", dir=shared) as record_folder:
            result = run(folder, record_folder)
    except (RunFailed, OSError) as problem:
        sys.exit(f"bench/{program}: {problem}; the folder {folder} is left as it is")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return result


def checks_table(checks):
    """As Markdown."""
    lines = ["| what | measured | at most | |", "|---|---:|---:|---|"]
    for one in checks:
        verdict = "met" if one["met"] else "MISSED" if one["decides"] else "MISSED, left out"
        lines.append(f"| {one['name']} | {one['value']:,} {one['unit']} | {one['bar']:,} | {verdict} |")
    return "\n".join(lines)


def failures(proved, faults, checks):
    """Why a run has failed, in words; nothing where it has not. `faults` has the words for each count of `proved` that
    must be 0."""
    return [f"{proved[key]:,} {words}" for key, words in faults.items() if proved[key]] + \
        [f"missed: {one['name']}" for one in checks if one["decides"] and not one["met"]]


def faults_text(proved, faults):
    """Each of them, also those that are 0."""
    return ", ".join(f"{proved[key]:,} {words}" for key, words in faults.items())


def taken(root):
    """When a run ended, and of which commit it is, in words."""
    commit = machine.output_of("git", "-C", root, "rev-parse", "--short", "HEAD") or "unknown"
    return f"Taken {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}, commit {commit}."


def published(name, text, failed):
    """What stands in the document: that the run has failed and why, the chart, the text."""
    alternative = ("FAILED: " if failed else "") + text.splitlines()[0]
    headline = f"**FAILED: {'; '.join(failed)}.**\n\n" if failed else ""
    return f"{headline}![{alternative}](../pictures/{name}.svg)\n\n{text}"


def publish(root, name, svg, text, failed):
    """Puts the chart into docs/pictures, and the text, with commit and date, into its place in
    docs/internals/measuring.md."""
    document = os.path.join(root, "docs", "internals", "measuring.md")
    with open(document, encoding="utf-8") as file:
        before = file.read()
    try:
        after = filled(before, name, f"bench/{name} --publish", published(name, f"{text}\n\n{taken(root)}", failed))
    except LookupError as problem:
        raise RunFailed(f"{document}: {problem}") from problem
    with open(document, "w", encoding="utf-8") as file:
        file.write(after)
    with open(os.path.join(root, "docs", "pictures", f"{name}.svg"), "w", encoding="utf-8") as file:
        file.write(svg)


def left_out(parser, text, known):
    """The keys that --leave-out names; ends the program if one is not known."""
    keys = set(filter(None, text.split(",")))
    if keys - set(known):
        parser.error(f"--leave-out knows no {', '.join(sorted(keys - set(known)))}; it knows {', '.join(known)}")
    return keys


def checks_decide(checks, keys_left_out):
    """(key, check) pairs as checks that say whether they decide."""
    return [{**one, "decides": key not in keys_left_out} for key, one in checks]


def check(name, value, bar, unit):
    """A verdict: is the value at most the bar?"""
    return {"name": name, "value": value, "bar": bar, "unit": unit, "met": value <= bar}


def disk_check(samples):
    """The sample that comes nearest to the bound, or exceeds it most."""
    worst = max(samples, key=lambda sample: sample["disk"] / sample["disk_max"])
    return check(f"disk, at its worst {worst['s']:.0f} s into the run, of 2.5 x live + 256 MiB",
                 round(worst["disk"] / MIB), round(worst["disk_max"] / MIB), "MiB")


def stolen_share(samples):
    """Of all cores, while these samples were taken."""
    stolen_s, passed_s = (samples[-1][key] - samples[0][key] for key in ("stolen_s", "s"))
    return stolen_s / passed_s / os.cpu_count()


def server_share(samples):
    """Of one core, while these samples were taken."""
    return (samples[-1]["server_cpu_s"] - samples[0]["server_cpu_s"]) / (samples[-1]["s"] - samples[0]["s"])


def checks_print(checks, file=sys.stderr):
    for one in checks:
        verdict = "ok     " if one["met"] else "NOT MET"
        print(f"{verdict} {one['name']}: {one['value']:,} {one['unit']}, at most {one['bar']:,}", file=file)
