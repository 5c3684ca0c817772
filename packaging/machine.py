"""A machine that systemd has booted, for the check of the packages: a minimal tree under an overlay, with namespaces of
its own for processes, mounts, names, control groups and the network. It has no way out, so ports are its own.

    with Machine(tree, folder) as machine:
        machine.run("systemctl is-active tallyd")     # what it said; status 0, or Failed

As root only. It ends with the `with`, or with this program."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "fresh"))
from fresh import Failed, Terminal, last_line  # noqa: E402

ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}

# With the tree and the machine's folder. What is mounted is what systemd.io/CONTAINER_INTERFACE asks for.
BOOT = r"""
set -e
tree=$1 folder=$2 root=$2/root
mount --make-rprivate /
mkdir -p "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$folder/upper,workdir=$folder/work" "$root"
cd "$root"
mount -t tmpfs -o mode=755 dev dev
for node in null:3:666 zero:5:666 full:7:666 random:8:666 urandom:9:666; do
    number=${node#*:}
    mknod -m "${node##*:}" "dev/${node%%:*}" c 1 "${number%:*}"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
: >dev/console
mount -t tmpfs shm dev/shm
mount -t tmpfs -o mode=755 run run
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
hostname packages
ip link set lo up
pivot_root . mnt
exec chroot . sh -c 'umount -l /mnt && exec env -i container=namespaces /lib/systemd/systemd' \
    >dev/console 2>&1 </dev/null
"""


def cgroup_root():
    """Where the second version of control groups is mounted."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(path)
    return None


def can_be_booted():
    """None, or why there can be no machine here."""
    if os.geteuid() != 0:
        return "it needs root"
    if cgroup_root() is None:
        return "there is no cgroup2"
    kinds = ["--net", "--mount", "--uts", "--ipc", "--pid", "--cgroup"]
    done = subprocess.run(["unshare", *kinds, "--fork", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


class Machine:
    def __init__(self, tree, folder, log):
        self.tree, self.folder, self.log = tree, folder, log
        self.group = cgroup_root() / f"tally-packages-{os.getpid()}"

    def __enter__(self):
        self.group.mkdir()
        kinds = ["--net", "--mount", "--uts", "--ipc", "--pid", "--cgroup"]
        boot = ["unshare", *kinds, "--fork", "--kill-child", "sh", "-c", BOOT, "sh", str(self.tree), str(self.folder)]
        join = ["sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "sh", str(self.group)]
        self.keeper = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *join, *boot], stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log)
        try:
            self.wait_until_booted()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_until_booted(self):
        deadline = time.monotonic() + 120
        children = pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children")
        while True:
            time.sleep(0.2)
            if self.keeper.poll() is not None or time.monotonic() > deadline:
                raise Failed("systemd does not boot here")
            pids = children.read_text().split()
            if not pids:
                continue
            self.pid = int(pids[0])
            done = subprocess.run(self.command(["systemctl", "is-system-running"]), capture_output=True, text=True)
            if done.stdout.strip() in ("running", "degraded"):  # it has no terminal, so its getty fails
                return

    def __exit__(self, *_):
        self.keeper.kill()
        self.keeper.wait()
        for _ in range(100):
            try:
                for group in sorted(self.group.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
                    group.rmdir()
                self.group.rmdir()
                break
            except OSError:
                time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, words):
        kinds = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        return ["nsenter", f"--target={self.pid}", *kinds, "--", *words]

    def run(self, text, seconds=300):
        """What it said; anything but status 0 is a failure."""
        print(f"\n=== {text}", file=self.log, flush=True)
        done = subprocess.run(self.command(["sh", "-c", text]), env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        print(done.stdout, file=self.log, flush=True)
        if done.returncode != 0:
            raise Failed(f"{text.splitlines()[0]} …: status {done.returncode}; {last_line(done.stdout)}")
        return done.stdout

    def wait_until(self, text, seconds=60):
        """Until the command has status 0."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.run(text)
            except Failed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def terminal(self, text, **environment):
        """A command on a terminal of its own."""
        print(f"\n=== {text} (on a terminal)", file=self.log, flush=True)
        return Terminal(self.command(["sh", "-c", text]), ENVIRONMENT | environment, self.log)
