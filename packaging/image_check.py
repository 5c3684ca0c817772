#!/usr/bin/python3
"""The image, run as its page says: docs/how-to/containers.md.

    make image-check                              # as root; the packages, then the image
    make image-check CHECK=build/image/tally-image.tar  # that one; nothing is built

It is built twice, and compared. Podman takes it, in a store and a network of its own, and runs the page's commands.
Then come the promises of the page: process 1 without rights over a read-only root, the health check, a snapshot,
kill -9, the memory of its control group, a backup. Where Podman can't run, that is skipped.

Standard output: a line for each step, PASS or FAIL, and at the end "N passed, N failed". All that was said is in
build/image-check/log. Exit status 0: nothing failed."""

import argparse
import hashlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

from manifests import BASE, CLUSTER, kubernetes, pod_of, variables_of
from steps import ROOT, Failed, Steps

FOLDER = ROOT / "build" / "image-check"
PAGE = ROOT / "docs" / "how-to" / "containers.md"
STORE = FOLDER / "store"
MEMORY = 256 << 20
USER = 9324

# A network and mounts of its own: ports, addresses and control groups are nobody else's. crun knows one version of
# control groups, not both at once.
ALONE = r"""
mount --make-rprivate /
ip link set lo up
if [ -d /var/lib/cni ]; then mount -t tmpfs tmpfs /var/lib/cni; fi
if [ -d /sys/fs/cgroup/unified ]; then umount -l /sys/fs/cgroup/unified; fi
exec "$@"
"""


def in_shell(text):
    """Commands of the page. `docker` is Podman, with limits that this machine may set."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    limits = f"--ulimit nofile={min(files, 10500)} --ulimit nproc={min(processes, 4096)}"
    podman = f"podman --root {STORE} --runroot {FOLDER}/run --events-backend file --log-level fatal"
    function = f"""set -e
docker() {{
    case $1 in
    load) {podman} pull -q docker-archive:"$3" ;;
    run) shift; {podman} run {limits} "$@" ;;
    *) {podman} "$@" ;;
    esac
}}
"""
    environment = os.environ | {"PATH": f"{FOLDER}/bin:{os.environ['PATH']}"}
    return STEPS.run("sh", "-c", function + text, cwd=FOLDER, env=environment)


def page_blocks():
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


# --- The image --------------------------------------------------------------------------------------------------------


def build():
    for name in ["first", "second"]:
        STEPS.run(ROOT / "packaging" / "image", FOLDER / name / "tally-image.tar")
    first, second = ((FOLDER / name / "tally-image.tar").read_bytes() for name in ["first", "second"])
    if first != second:
        raise Failed("they differ")
    return f"{len(first) >> 20} MiB, sha256 {hashlib.sha256(first).hexdigest()[:16]}…"


def can_run():
    """None, or why no container can be run here."""
    if os.geteuid() != 0:
        return "it needs root"
    missing = [name for name in ["podman", "crun", "unshare", "ip"] if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    done = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


# --- In containers ----------------------------------------------------------------------------------------------------


def page_begins():
    in_shell(page_blocks()[0].replace("make image\n", ""))
    said = in_shell("tally --endpoint http://127.0.0.1:9324 queue list")
    if said.strip() != "jobs":
        raise Failed(f"from outside there is {said!r}")
    return "its port answers this machine"


def without_a_word():
    said = in_shell("if docker run --rm tally; then exit 1; fi")
    if "--insecure-any-address" not in said or "--credentials" not in said:
        raise Failed(f"it said {said!r}")
    return "it ends, and names both words that let it"


def health_check():
    said = in_shell("docker healthcheck run tally && docker inspect --format '{{.State.Health.Status}}' tally")
    if said.split()[-1] != "healthy":
        raise Failed(said)
    return "healthy"


def page_goes_on():
    for block in page_blocks()[1:-1]:
        said = in_shell(block)
    if said.split()[-1] != "hello":
        raise Failed(f"it ended with {said!r}")
    in_shell("if docker exec tally tally queue list; then exit 1; fi")
    return "the message is in the volume; who signs nothing is refused"


def process_1():
    pid = in_shell("docker inspect --format '{{.State.Pid}}' tally").split()[-1]
    rows = dict(re.findall(r"^(\w+):\s+(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    expected = {"Name": "tallyd", "NSpid": r"\d+\t1", "Uid": r"9324\t.*", "CapEff": "0+", "CapBnd": "0+"}
    for key, wanted in expected.items():
        if not re.fullmatch(wanted, rows[key]):
            raise Failed(f"{key} is {rows[key]!r}")
    options = [row.split()[3] for row in pathlib.Path(f"/proc/{pid}/mounts").read_text().splitlines()
               if row.split()[1] == "/"]
    if "ro" not in options[-1].split(","):
        raise Failed(f"the root is {options[-1]}")
    return "tallyd, user 9324, no capability, over a read-only root"


def snapshot():
    """Its writer is a child of process 1."""
    in_shell(f"""docker rm -f tally
docker run -d --name tally -v tally:/var/lib/tally --read-only --cap-drop all tally --insecure-any-address \\
    --snapshot-bytes 1
docker exec tally tally health --wait 60
seq 2000 | docker exec -i tally tally send jobs - --lines >/dev/null
for _ in $(seq 100); do
    docker exec tally tally call Tally.DescribeServer '{{}}' | grep -q LastAt && exit 0
    sleep 0.2
done
exit 1""")
    return "one was written"


def reload():
    in_shell("docker kill -s HUP tally && docker exec tally tally health")
    return "SIGHUP, and it serves"


def killed():
    in_shell("docker kill -s KILL tally && docker start tally && docker exec tally tally health --wait 60 && "
             "docker exec tally tally receive jobs --wait 20")
    return "kill -9, start, and the messages are there"


def stopped():
    said = in_shell("docker stop -t 90 tally && docker inspect --format '{{.State.ExitCode}}' tally")
    if said.split()[-1] != "0":
        raise Failed(f"its status was {said.split()[-1]}")
    return "SIGTERM, status 0"


def memory():
    said = in_shell(f"""docker rm -f tally
docker run -d --name tally --memory {MEMORY} tally --insecure-any-address >/dev/null
docker exec tally tally health --wait 60 >/dev/null
docker exec tally tally call Tally.DescribeServer '{{}}'""")
    bound = int(re.search(r'"Max":(\d+)', said)[1])
    if not 0.49 * MEMORY < bound < 0.51 * MEMORY:
        raise Failed(f"of {MEMORY} bytes it may use {bound}")
    return f"of {MEMORY >> 20} MiB the index may take {round(bound / 2**20)}"


def backup():
    in_shell("docker rm -f tally")
    in_shell(page_blocks()[1])
    in_shell(page_blocks()[-1])
    in_shell("mkdir -p backup && tar -x -C backup -f tally.tar && tallyd --verify backup/*")
    return "the page's backup verifies"


# --- The pods of a cluster --------------------------------------------------------------------------------------------


class Database:
    """A PostgreSQL that is reached by a socket in its folder, by anybody."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))

    def __enter__(self):
        self.folder.mkdir()
        shutil.chown(self.folder, "postgres", "postgres")
        self.run("initdb", "-U", "tally", "--auth=trust")
        self.run("pg_ctl", "-l", self.folder / "log", "-w", "-o",
                 f"-c listen_addresses='' -c unix_socket_directories={self.folder}", "start")
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "-m", "immediate", "stop")

    def run(self, program, *words):
        as_owner = ["runuser", "-u", "postgres", "--", self.programs / program]
        STEPS.run(*as_owner, "-D", self.folder / "data", *words, cwd="/")


def make_secrets(folder):
    """As Kubernetes mounts them: of root and the group of the pod."""
    folder.mkdir()
    STEPS.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
              "-subj", "/CN=tally", "-addext", "subjectAltName=DNS:*.tally-nodes.default.svc",
              "-keyout", "key", "-out", "ca.pem", cwd=folder)
    (folder / "node.pem").write_text((folder / "ca.pem").read_text() + (folder / "key").read_text())
    (folder / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    (folder / "credentials").write_text("app SECRET 000000000000 read,write,admin\n")
    for path in folder.iterdir():
        shutil.chown(path, "root", USER)
        path.chmod(0o440)


def run_pod(pod, number, nodes, secrets):
    """What has to end before it, and the container; with its names, as the Service gives them."""
    name, database = f"tally-{number}", secrets.parent / "postgres"
    values = {("tally-postgres", "log"): f"postgres://tally@/postgres?host={database}"}
    names = [f"--add-host tally-{other}.tally-nodes.default.svc:10.88.9.{other + 1}" for other in range(nodes)]
    for container in [*pod["initContainers"], *pod["containers"]]:
        is_first = container in pod["initContainers"]
        options = ["--read-only", "--cap-drop all", f"--hostname {name}", f"-v {database}:{database}"]
        options += ["--rm"] if is_first else ["-d", "--name", name, f"--ip 10.88.9.{number + 1}", *names]
        variables = variables_of(container, values, POD=name, NAMESPACE="default")
        options += [f"-e '{key}={value}'" for key, value in variables.items()]
        options += [f"-v {secrets}:{row['mountPath']}:ro" for row in container.get("volumeMounts", [])
                    if row["name"] != "data"]
        in_shell(f"docker run {' '.join(options)} tally {' '.join(container.get('args', []))}")


def ask(number, words):
    signed = "-e AWS_ACCESS_KEY_ID=app -e AWS_SECRET_ACCESS_KEY=SECRET"
    return in_shell(f"docker exec {signed} tally-{number} tally {words}")


def pods():
    objects = kubernetes(BASE, CLUSTER)
    nodes = objects["StatefulSet", "tally"]["spec"]["replicas"]
    make_secrets(FOLDER / "secrets")
    with Database(FOLDER / "postgres"):
        for number in range(nodes):
            run_pod(pod_of(objects), number, nodes, FOLDER / "secrets")
        try:
            for number in range(nodes):
                ask(number, "health --wait 60")
            ask(0, "queue create jobs")
            ask(1, "send jobs one")
            ask(2, "receive jobs --delete --wait 20 | grep one")
            in_shell("docker kill -s KILL tally-0")
            ask(1, "send jobs another")
            ask(2, "receive jobs --delete --wait 20 | grep another")
        except Failed:
            in_shell(f"for n in $(seq 0 {nodes - 1}); do docker logs tally-$n; done")
            raise
        finally:
            in_shell("docker rm -f -a")
    return f"{nodes} nodes answer for each other, and go on without one"


# --- The whole --------------------------------------------------------------------------------------------------------

IN_CONTAINERS = [
    ("the page's first commands", page_begins),
    ("the health check", health_check),
    ("without credentials", without_a_word),
    ("the page's credentials", page_goes_on),
    ("process 1", process_1),
    ("a snapshot", snapshot),
    ("reload", reload),
    ("kill -9", killed),
    ("stop", stopped),
    ("memory", memory),
    ("backup", backup),
    ("the pods of a cluster", pods),
]


def run_containers(file):
    (FOLDER / "build" / "image").mkdir(parents=True)
    (FOLDER / "build" / "image" / "tally-image.tar").symlink_to(file.resolve())
    (FOLDER / "bin").mkdir()
    for name in ["tally", "tallyd"]:
        (FOLDER / "bin" / name).symlink_to(ROOT / "build" / "bin" / name)
    try:
        for what, action in IN_CONTAINERS:  # each begins where the one before it has ended
            if not STEPS.take(what, action):
                in_shell("docker logs tally || true")
                break
    finally:
        in_shell("docker rm -f -a >/dev/null 2>&1 || true; docker rmi -f -a >/dev/null 2>&1 || true")
        subprocess.run(["umount", "-q", "-l", STORE / "overlay"], check=False)
        shutil.rmtree(STORE, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", metavar="FILE", nargs="?", type=pathlib.Path)
    file = parser.parse_args().image
    if file is None:
        STEPS.take("two images are the same", build)
        file = FOLDER / "first" / "tally-image.tar"
    reason = can_run()
    if reason is None:
        run_containers(file)
    else:
        print(f"skipped: no container can be run here: {reason}")
    STEPS.end()


if __name__ == "__main__":
    if os.geteuid() == 0 and "IMAGE_CHECK_ALONE" not in os.environ and can_run() is None:
        environment = os.environ | {"IMAGE_CHECK_ALONE": "yes"}
        command = ["unshare", "--net", "--mount", "sh", "-ec", ALONE, "sh", sys.executable, "-B", *sys.argv]
        os.execvpe(command[0], command, environment)
    STEPS = Steps(FOLDER)
    main()
