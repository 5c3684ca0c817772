"""The compose file and the manifests for Kubernetes, as compose and kustomize read them."""

import pathlib

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
BASE = FOLDER / "kubernetes" / "base"
CLUSTER = FOLDER / "kubernetes" / "cluster"


def merge(below, above):
    """Maps by key, lists of what has a name by that; all else is replaced."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: merge(below.get(key), value) for key, value in above.items()}
    if isinstance(below, list) and isinstance(above, list) and all(isinstance(row, dict) for row in below + above):
        rows = {row["name"]: row for row in above}
        for row in below:
            rows[row["name"]] = merge(row, rows.get(row["name"], row))
        return list(rows.values())
    return above


def compose(*names):
    """The file, with those of the other names over it."""
    merged = {}
    for name in names:
        merged = merge(merged, yaml.safe_load((FOLDER / "compose" / name).read_text()))
    return merged


def kubernetes(*folders):
    """{(kind, name): the object} of the manifests, with the patches of the overlays."""
    objects = {}
    for folder in folders:
        wanted = yaml.safe_load((folder / "kustomization.yaml").read_text())
        for name in wanted.get("resources", []):
            documents = yaml.safe_load_all((folder / name).read_text()) if name.endswith(".yaml") else []
            objects |= {(row["kind"], row["metadata"]["name"]): row for row in documents}
        for row in wanted.get("patches", []):
            patch = yaml.safe_load((folder / row["path"]).read_text())
            name = patch["kind"], patch["metadata"]["name"]
            objects[name] = merge(objects[name], patch)
    return objects


def pod_of(objects):
    return objects["StatefulSet", "tally"]["spec"]["template"]["spec"]


def variables_of(container, secrets, **fields):
    """Its environment, of the secrets {(name, key): value} and of what the fields of a pod say: POD=…"""
    found = {}
    for row in container.get("env", []):
        if "value" in row:
            value = row["value"]
            for name, text in fields.items():
                value = value.replace(f"$({name})", text)
            found[row["name"]] = value
        elif "secretKeyRef" in row["valueFrom"]:
            asked = row["valueFrom"]["secretKeyRef"]
            found[row["name"]] = secrets[asked["name"], asked["key"]]
        else:
            found[row["name"]] = fields[row["name"]]
    return found
