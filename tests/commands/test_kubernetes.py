"""packaging/kubernetes.yaml: held against the schemas of Kubernetes, and against what hostd and the images have."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs the extra dev")
import yaml  # noqa: E402, kubernetes_validate brings it

PACKAGING = Path(__file__).parents[2] / "packaging"
OBJECTS = list(yaml.safe_load_all((PACKAGING / "kubernetes.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("release", ["1.28", "1.32"])
@pytest.mark.parametrize("found", OBJECTS, ids=lambda found: found["kind"])
def test_each_object_is_one(found: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(found, release, strict=True)


def test_the_schemas_refuse_what_is_none() -> None:
    wrong = {**OBJECTS[0], "dta": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.32", strict=True)


def test_hostd_is_started_with_options_that_it_has() -> None:
    (daemon,) = (found for found in OBJECTS if found["kind"] == "DaemonSet")
    (hostd,) = daemon["spec"]["template"]["spec"]["containers"]
    known = {option.opts[-1] for option in import_module("hostlib.hostd.cli").main.params}
    assert {word.partition("=")[0] for word in hostd["args"]} <= known
    made = {each["name"] for each in hostd["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(hostd["args"]))) == made


def test_each_mount_has_its_volume() -> None:
    for found in OBJECTS[1:]:
        spec = found["spec"].get("template", found)["spec"]
        volumes = {each["name"] for each in spec["volumes"]}
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
