"""What the figures depend on and nobody can see in them: processor, kernel, file system, versions, other load."""

import os
import platform
import re
import shutil
import subprocess
import sys

TICK = os.sysconf("SC_CLK_TCK")


def read(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return default


def output_of(*command):
    """What a command prints, standard error included; empty if it can't run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10,
                              check=False)
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def cpu_model():
    for key in ("model name", "Model", "cpu model"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", read("/proc/cpuinfo"), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.machine()


def file_system_of(folder):
    """Type and options of the mount that holds `folder`."""
    best = ("", "unknown", "")
    for line in read("/proc/self/mounts").splitlines():
        _, where, kind, options = line.split()[:4]
        inside = folder == where or folder.startswith(where.rstrip("/") + "/")
        if inside and len(where) >= len(best[0]):
            best = (where, kind, options)
    return f"{best[1]} ({best[2]})"


def describe(folder):
    memory_kib = int(re.search(r"MemTotal:\s+(\d+)", read("/proc/meminfo")).group(1))
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "file_system": file_system_of(os.path.realpath(folder)),
        "tcp_congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control").strip(),
        "load_average_before": os.getloadavg()[0],
    }


def two_cores():
    """The server's and the generator's core; None, None where there is only one."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2 or shutil.which("taskset") is None:
        return None, None
    return available[0], available[1]


ALL_CORES = sorted(os.sched_getaffinity(0))  # before bench/run goes to one of them


def halves():
    """The cores of servers and those of loads, as taskset takes them, where several of each run. With two cores that
    is what two_cores() says."""
    if len(ALL_CORES) < 2 or shutil.which("taskset") is None:
        return None, None
    middle = len(ALL_CORES) // 2
    return tuple(",".join(map(str, cores)) for cores in (ALL_CORES[:middle], ALL_CORES[middle:]))


def tell(text):
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def core_s(core, *names):
    """Time that a core has spent in some ways since the machine started."""
    ways = ("user", "nice", "system", "idle", "wait", "irq", "softirq", "steal")
    for line in read("/proc/stat").splitlines():
        if line.startswith(f"cpu{core} "):
            spent = dict(zip(ways, map(int, line.split()[1:])))
            return sum(spent[name] for name in names) / TICK
    return 0.0


def busy_s(core):
    """Not idle."""
    return core_s(core, "user", "nice", "system", "irq", "softirq", "steal")


def stolen_s(core=""):
    """Wanted, and not had: a virtual machine's host gave it to others. Without a core: from all of them together."""
    return core_s(core, "steal")


def cpu_of_s(pid):
    """User and system time of a process, with all its threads and the children that it has waited for."""
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK if fields else 0.0


def thread_cpu_s(pid):
    """Processor time of a process's threads that are there, to the microsecond: cpu_of_s counts in ticks."""
    spent = (read(f"{folder}/schedstat", "0").split()[0] for folder in folders_of(f"/proc/{pid}/task"))
    return sum(map(int, spent)) / 1e9


def anonymous_memory_of(pid):
    """Bytes of memory that no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", read(f"/proc/{pid}/status"))
    return int(found.group(1)) * 1024 if found else 0


def children_of(pid):
    """The processes that a process has started, and theirs, which are still there."""
    found = []
    for child in read(f"/proc/{pid}/task/{pid}/children").split():
        found += [int(child), *children_of(child)]
    return found


def tree_cpu_s(pid):
    """As cpu_of_s, of a process and all that it has started."""
    return cpu_of_s(pid) + sum(cpu_of_s(child) for child in children_of(pid))


def folders_of(path):
    """The folders in a folder; none where it isn't there."""
    try:
        return [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []
