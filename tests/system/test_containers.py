"""The image, the compose file and the manifests for Kubernetes, as far as that takes no registry, no package and no
cluster. The image has the programs that are tested; `make image-check` runs one that is made of the packages."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

from conftest import BIN, ROOT, clean_environment, free_port, wait_until

sys.path.insert(0, str(ROOT / "packaging"))
from manifests import BASE, CLUSTER, compose, kubernetes, pod_of, variables_of  # noqa: E402

pytestmark = pytest.mark.skipif(BIN != ROOT / "build" / "bin", reason="only what is released is in an image")

PACKAGING = ROOT / "packaging"
PAGE = (ROOT / "docs" / "how-to" / "containers.md").read_text()


# --- The image --------------------------------------------------------------------------------------------------------


class Image:
    """The tar that packaging/image wrote, read as registries do."""

    def __init__(self, file):
        subprocess.run([PACKAGING / "image", "--programs", BIN, file], check=True, stdout=subprocess.DEVNULL)
        self.file = file
        with tarfile.open(file) as tar:
            self.files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
        (named,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(named))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, described):
        content = self.files["blobs/" + described["digest"].replace(":", "/")]
        assert described["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
        assert described["size"] == len(content)
        return content

    def layers(self):
        return [self.blob(layer) for layer in self.manifest["layers"]]

    def unpack(self, folder):
        folder.mkdir()
        for number, layer in enumerate(self.layers()):
            path = folder.parent / f"layer-{number}"
            path.write_bytes(layer)
            subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder, "-f", path], check=True)
        return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return Image(tmp_path_factory.mktemp("image") / "tally.tar")


@pytest.fixture(scope="module")
def root(image, tmp_path_factory):
    return image.unpack(tmp_path_factory.mktemp("unpacked") / "root")


def test_both_forms_of_the_image_name_the_same_layers(image):
    (docker,) = json.loads(image.files["manifest.json"])
    assert docker["RepoTags"] == ["tally:latest"]
    assert docker["Config"] == "blobs/" + image.manifest["config"]["digest"].replace(":", "/")
    assert docker["Layers"] == ["blobs/" + row["digest"].replace(":", "/") for row in image.manifest["layers"]]
    assert image.config["rootfs"]["diff_ids"] == [row["digest"] for row in image.manifest["layers"]]


def test_the_image_says_how_it_is_run(image):
    config = image.config["config"]
    assert config["User"] == "9324:9324" and config["Entrypoint"] == ["/usr/bin/tallyd"]
    assert config["StopSignal"] == "SIGTERM" and list(config["Volumes"]) == ["/var/lib/tally"]
    assert list(config["ExposedPorts"]) == ["9324/tcp"]
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/tally", "health"]
    keys = {"TALLY_" + key.upper().replace("-", "_") for key in keys_of_tallyd()}
    assert {line.split("=")[0] for line in config["Env"]} - {"PATH"} <= keys
    version = subprocess.run([BIN / "tallyd", "--version"], capture_output=True, text=True).stdout.split()[1]
    assert config["Labels"]["org.opencontainers.image.version"] == version


def test_the_same_programs_give_the_same_image(image, tmp_path):
    again = tmp_path / "again.tar"
    subprocess.run([PACKAGING / "image", "--programs", BIN, again], check=True, stdout=subprocess.DEVNULL)
    assert again.read_bytes() == image.file.read_bytes()


def test_the_image_has_what_its_programs_load_and_nothing_that_runs_beside_them(image, root):
    names = {path.name for path in root.rglob("*")}
    for path in [*root.glob("usr/bin/*"), *root.glob("usr/lib/*/*.so*")]:
        said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) <= names, path
    assert sorted(path.name for path in root.glob("usr/bin/*")) == ["tally", "tallyd"]
    for layer in image.layers():
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            entries = list(tar)
        assert not [entry.name for entry in entries if entry.mode & 0o6000]
        assert {entry.name for entry in entries if entry.uid or entry.gid} <= {"var/lib/tally"}
        assert len({entry.mtime for entry in entries}) == 1


def test_scanners_find_the_packages_of_the_image(root, image):
    names = {path.name for path in root.glob("var/lib/dpkg/status.d/*")}
    assert {"libc6", "tzdata", "ca-certificates"} <= names
    bill = json.loads(image.file.with_suffix(".cdx.json").read_text())
    assert {row["name"] for row in bill["components"]} >= names | {"tally", "libyyjson0", "libxxhash-dev"}
    for name in names:
        assert f"Package: {name}\n" in (root / "var/lib/dpkg/status.d" / name).read_text()
        assert (root / "usr/share/doc" / name / "copyright").stat().st_size > 0


def can_unshare():
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return shutil.which("bwrap") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="bwrap can make no namespaces here")
def test_tallyd_serves_as_process_1_of_the_image_over_a_read_only_root(image, root, tmp_path):
    """With what the image says of user, environment and program; in namespaces of its own, but for the network."""
    (data := tmp_path / "data").mkdir()
    config = image.config["config"]
    user, group = config["User"].split(":")
    box = ["bwrap", "--unshare-all", "--share-net", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL",
           "--uid", user, "--gid", group, "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev",
           "--bind", data, *config["Volumes"], "--chdir", config["WorkingDir"], "--clearenv"]
    for line in config["Env"]:
        box += ["--setenv", *line.split("=", 1)]

    def run(*words, **more):
        return subprocess.run([*box, "--", *words], capture_output=True, text=True, timeout=30, **more)

    refused = run(*config["Entrypoint"])
    assert refused.returncode == 2 and "--insecure-any-address" in refused.stderr and "--credentials" in refused.stderr

    endpoint = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen([*box, "--", *config["Entrypoint"], "--listen", endpoint], text=True,
                              stdout=subprocess.PIPE, env=clean_environment())
    try:
        assert server.stdout.readline().startswith(f"tallyd ready on http://{endpoint} data=/var/lib/tally ")
        check = [*config["Healthcheck"]["Test"][1:], "--endpoint", f"http://{endpoint}"]
        assert run(*check).stdout == "ready\n"
        # A schedule in a zone needs the zones.
        assert run("tally", "--endpoint", f"http://{endpoint}", "queue", "create", "jobs").returncode == 0
        made = run("tally", "--endpoint", f"http://{endpoint}", "schedule", "put", "nightly", "0 3 * * *", "jobs", "go",
                   "--time-zone", "Europe/Berlin")
        assert made.returncode == 0, made.stderr
    finally:
        # The box hands no signals on; the one in it is its child.
        (child,) = open(f"/proc/{server.pid}/task/{server.pid}/children").read().split()
        os.kill(int(child), 15)
        assert server.wait(30) == 0
    assert run(*check).returncode == 3


# --- What starts it elsewhere -----------------------------------------------------------------------------------------


def keys_of_tallyd():
    """The table of keys, as tallyd prints it."""
    done = subprocess.run([BIN / "tallyd", "--print-config"], capture_output=True, text=True, check=True,
                          env=clean_environment())
    return re.findall(r"^(\S+) ", done.stdout, re.MULTILINE)


def check_config(arguments, **environment):
    done = subprocess.run([BIN / "tallyd", *arguments, "--check-config"], capture_output=True, text=True,
                          env=clean_environment(**environment))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def mounted(tmp_path):
    """Where what the containers find in their folders is: credentials, and what a node of a cluster has."""
    (tmp_path / "data").mkdir()
    (tmp_path / "credentials").write_text("app SECRET 000000000000 read,write,admin\n")
    (tmp_path / "credentials").chmod(0o640)
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    name = "*.tally-nodes.default.svc"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=tally", "-addext", f"subjectAltName=DNS:{name}", "-keyout", tmp_path / "key.pem",
                    "-out", tmp_path / "ca.pem"], check=True, capture_output=True)
    (tmp_path / "node.pem").write_text((tmp_path / "ca.pem").read_text() + (tmp_path / "key.pem").read_text())
    return tmp_path


def environment_of_image(folder):
    return {"TALLY_LISTEN": "0.0.0.0:9324", "TALLY_DATA": str(folder / "data")}


def test_the_compose_file_starts_what_tallyd_takes(mounted):
    tally = compose("compose.yaml")["services"]["tally"]
    check_config(tally["command"], **environment_of_image(mounted))
    assert tally["read_only"] and tally["cap_drop"] == ["ALL"] and tally["stop_grace_period"] == "90s"

    signed = compose("compose.yaml", "credentials.yaml")
    tally = signed["services"]["tally"]
    assert "--insecure-any-address" not in tally["command"] and tally["secrets"] == list(signed["secrets"])
    words = [word.replace("/run/secrets", str(mounted)) for word in tally["command"]]
    check_config(words, **environment_of_image(mounted))


def test_the_compose_file_publishes_to_this_machine_only_and_mounts_what_is_there():
    document = compose("compose.yaml")
    for service in document["services"].values():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:")
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            here = PACKAGING / "compose" / source
            assert here.is_file() if source.startswith(".") else source in document["volumes"]


def test_prometheus_and_grafana_find_tally_the_rules_and_the_boards(tmp_path):
    document = compose("compose.yaml")
    places = dict(row.split(":")[1::-1] for service in document["services"].values() for row in service["volumes"])
    prometheus = yaml.safe_load((PACKAGING / "compose" / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["job_name"] == "tally" and job["static_configs"] == [{"targets": ["tally:9324"]}]
    assert [f"/etc/prometheus/{name}" in places for name in prometheus["rule_files"]] == [True]
    source = yaml.safe_load((PACKAGING / "compose/grafana/datasource.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and source["isDefault"]
    (provider,) = yaml.safe_load((PACKAGING / "compose/grafana/boards.yaml").read_text())["providers"]
    boards = {path.name for path in (ROOT / "monitoring").glob("*.json")}
    assert {place.rpartition("/")[2] for place in places if place.startswith(provider["options"]["path"])} == boards
    if shutil.which("promtool"):
        for name in ["packaging/compose/prometheus.yml", "monitoring/tally.rules.yml"]:
            shutil.copy(ROOT / name, tmp_path)
        subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], check=True, capture_output=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
@pytest.mark.parametrize("folders", [[BASE], [BASE, CLUSTER]], ids=["base", "cluster"])
def test_kustomize_makes_of_the_manifests_what_is_checked_here(folders):
    done = subprocess.run(["kubectl", "kustomize", folders[-1]], capture_output=True, text=True, check=True)
    made = {(row["kind"], row["metadata"]["name"]): row for row in yaml.safe_load_all(done.stdout)}

    def ordered(value):  # which of two variables or ports comes first is kustomize's choice
        if isinstance(value, dict):
            return {key: ordered(value[key]) for key in sorted(value)}
        return sorted(map(ordered, value), key=str) if isinstance(value, list) else value

    assert ordered(made) == ordered(kubernetes(*folders))


SECRETS = {("tally-postgres", "log"): "postgres://tally:PASSWORD@127.0.0.1/tally"}


def start_as_a_pod(container, mounted):
    """Whether tallyd takes the variables and flags, for the first pod of a namespace."""
    environment = environment_of_image(mounted) | variables_of(container, SECRETS, POD="tally-0", NAMESPACE="default")
    keys = {"TALLY_" + key.upper().replace("-", "_") for key in keys_of_tallyd()}
    assert {name for name in environment if name.startswith("TALLY_")} <= keys
    for row in container.get("volumeMounts", []):
        for name, value in environment.items():
            environment[name] = value.replace(f"{row['mountPath']}/", f"{mounted}/")
    check_config([word for word in container.get("args", []) if word != "--init"], **environment)
    return environment


@pytest.mark.parametrize("folders", [[BASE], [BASE, CLUSTER]], ids=["base", "cluster"])
def test_the_manifests_start_what_tallyd_takes(folders, mounted):
    pod = pod_of(kubernetes(*folders))
    (container,) = pod["containers"]
    environment = start_as_a_pod(container, mounted)
    for one in pod.get("initContainers", []):
        start_as_a_pod(one, mounted)
    ports = {row["name"]: row["containerPort"] for row in container["ports"]}
    assert ports["sqs"] == 9324
    if len(folders) > 1:
        assert environment["TALLY_ADVERTISE"] == f"tally-0.tally-nodes.default.svc:{ports['nodes']}"
        assert environment["TALLY_CLUSTER_LISTEN"] == f"0.0.0.0:{ports['nodes']}"


@pytest.mark.parametrize("folders", [[BASE], [BASE, CLUSTER]], ids=["base", "cluster"])
def test_the_pods_are_as_closed_and_as_patient_as_the_page_says(folders):
    objects = kubernetes(*folders)
    pod = pod_of(objects)
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] == security["fsGroup"] == 9324
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["enableServiceLinks"] and pod["terminationGracePeriodSeconds"] == 90
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
    startup = pod["containers"][0]["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 3600
    assert objects["StatefulSet", "tally"]["spec"]["replicas"] == (1 if len(folders) == 1 else 3)
    assert objects["PodDisruptionBudget", "tally"]["spec"]["maxUnavailable"] == 1
    assert objects["StatefulSet", "tally"]["spec"]["serviceName"] == "tally-nodes"
    assert objects["Service", "tally-nodes"]["spec"]["publishNotReadyAddresses"]


def test_the_probes_ask_pages_that_tallyd_answers(daemon):
    container = pod_of(kubernetes(BASE))["containers"][0]
    ports = {row["name"] for row in container["ports"]}
    for name in ["startupProbe", "readinessProbe", "livenessProbe"]:
        asked = container[name]["httpGet"]
        assert asked["port"] in ports
        wait_until(lambda path=asked["path"]: daemon.request("GET", path)[0] == 200, what=asked["path"])
    for service in ["tally", "tally-nodes"]:
        (port,) = kubernetes(BASE)["Service", service]["spec"]["ports"]
        assert port["targetPort"] in ports


def test_the_page_makes_the_secrets_that_the_manifests_name():
    pod = pod_of(kubernetes(BASE, CLUSTER))
    wanted = {row["secret"]["secretName"] for row in pod["volumes"] if "secret" in row}
    projected = [row["projected"]["sources"] for row in pod["volumes"] if "projected" in row]
    wanted |= {row["secret"]["name"] for sources in projected for row in sources}
    wanted |= {row["valueFrom"]["secretKeyRef"]["name"] for container in pod["containers"] + pod["initContainers"]
               for row in container.get("env", []) if "secretKeyRef" in row.get("valueFrom", {})}
    assert set(re.findall(r"kubectl create secret generic (\S+)", PAGE)) == wanted
    assert {path.name for path in (PACKAGING / "kubernetes").iterdir()} == {"base", "cluster"}
