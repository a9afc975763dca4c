"""The YANG modules as files: their style, their state half, and that they are found."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from qclimb.errors import IntentError
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.schema import _sentence, validate_config_db, validate_gnmi, yang_directory

ROOT = Path(__file__).parents[2]
PYANG = Path(sys.executable).with_name("pyang")
INTENT = SwitchIntent(7, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 6)))


@pytest.mark.parametrize("module", ["qclimb", "sonic-qclimb"])
def test_pyang_has_nothing_to_say_but_about_the_modules_name(module: str) -> None:
    """RFC 8407 4.1 wants a prefix before a module's name; ours is its own, and SONiC's is `sonic-`."""
    said = subprocess.run(
        [PYANG, "--lint", "--lint-modulename-prefix", "sonic", yang_directory() / f"{module}.yang"],
        capture_output=True,
        text=True,
        check=False,
    )
    left = [line for line in said.stderr.splitlines() if "RFC 8407: 4.1:" not in line]
    assert (said.returncode, left) == (0, [])


def test_the_readme_shows_the_trees_as_they_are() -> None:
    tree = subprocess.run(
        [PYANG, "-f", "tree", *sorted(yang_directory().glob("*.yang"))], capture_output=True, text=True, check=True
    )
    readme = (ROOT / "gnmi-models" / "README.md").read_text()
    for line in tree.stdout.splitlines():
        assert line.rstrip() in readme, f"{line!r}: paste pyang's tree into gnmi-models/README.md again"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            'Invalid type uint64 value "x".: Data path: /qclimb:qclimb/config/generation (line 1)',
            '/qclimb:qclimb/config/generation: Invalid type uint64 value "x"',
        ),
        (
            'failed to parse data tree: Invalid value "x". : Data location "/qclimb:qclimb/config", line number 1.',
            '/qclimb:qclimb/config: Invalid value "x"',
        ),
        (
            'Mandatory node "queue" instance does not exist.: Schema path: /qclimb:qclimb/classes/class/config/queue',
            '/qclimb:qclimb/classes/class/config/queue: Mandatory node "queue" instance does not exist',
        ),
    ],
)
def test_what_either_libyang_says_begins_with_the_path(message: str, sentence: str) -> None:
    assert _sentence(message) == sentence


def test_what_a_switch_answers_is_valid_too() -> None:
    tree = INTENT.to_gnmi()["qclimb:qclimb"]
    tree["state"] = {
        "generation": "7",
        "admin-state": "enabled",
        "desired-generation": "7",
        "applied-generation": "6",
        "applied-at": "2026-11-21T10:00:00.123Z",
        "last-error": "port 'Ethernet8' is not in the table PORT of this switch",
    }
    state = {"priority": 0, "dscp": 47, "status": "applied", "packets": "1", "bytes": 1500, "dropped-packets": "0"}
    tree["classes"]["class"][0]["state"] = state
    tree["paths"] = {"path": [{"name": "s1", "config": {"name": "s1", "share": "1"}, "state": {"status": "down"}}]}
    tree["state"] |= {"path-backend": "acl", "pinned-classes-max": 16}
    spine = {
        "name": "s1",
        "status": "unresolved",
        "reason": "no neighbour",
        "interfaces": ["Ethernet112"],
        "packets": "3",
    }
    tree["spines"] = {"spine": [{"name": "s1", "state": {**spine, "next-hops": ["10.0.0.1", "fc00::1"]}}]}
    tree["paths"]["path"][0]["state"]["reason"] = "no weights in next-hop groups here"
    validate_gnmi(tree, state=True)
    assert [each.dscp for each in SwitchIntent.from_gnmi(tree).classes] == [47, 43]
    with pytest.raises(IntentError, match="state"):
        validate_gnmi(tree)
    state["status"] = "fine"
    with pytest.raises(IntentError, match=r"class\[priority='0'\]/state/status: Invalid enumeration value \"fine\""):
        validate_gnmi(tree, state=True)


def test_nothing_is_valid() -> None:
    validate_gnmi({})
    validate_gnmi({"qclimb:qclimb": {}})
    validate_config_db({})
    validate_config_db({"QCLIMB_CLASS": {}})


def test_what_nests_deeper_than_the_model_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"config": deep}
    with pytest.raises(IntentError):
        validate_gnmi(deep)


def test_a_module_on_yangpath_does_not_stand_in_for_ours(tmp_path: Path) -> None:
    (tmp_path / "qclimb.yang").write_text("module qclimb { namespace 'urn:other'; prefix o; container qclimb { } }")
    program = "import qclimb.schema; qclimb.schema.validate_gnmi({'config': {'generation': 1}})"
    environment = {**os.environ, "YANGPATH": str(tmp_path), "PYTHONPATH": str(ROOT / "gnmi-models")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_threads_do_not_mix_their_errors() -> None:
    def refusal(dscp: int) -> str:
        tree = INTENT.to_gnmi()
        tree["qclimb:qclimb"]["classes"]["class"][0]["config"]["dscp"] = dscp
        with pytest.raises(IntentError) as refused:
            validate_gnmi(tree)
        return str(refused.value)

    with ThreadPoolExecutor(4) as threads:
        for dscp, said in zip(range(64, 164), threads.map(refusal, range(64, 164)), strict=True):
            assert f'value "{dscp}" is out of the allowed range' in said


def test_a_host_that_wants_its_policy_loads_neither_numpy_nor_libyang() -> None:
    program = (
        "import sys, qclimb.hostfile, qclimb.histogram, qclimb.intent;"
        "print([name for name in ('numpy', 'libyang') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT / "gnmi-models"
    )
    assert found.stdout == "[]\n"


def test_only_the_modules_that_need_them_import_libyang_numpy_and_pyarrow() -> None:
    lines = {path.stem: path.read_text().splitlines() for path in (ROOT / "gnmi-models" / "qclimb").glob("*.py")}
    for package, those in (
        ("libyang", {"schema"}),
        ("numpy", {"forest", "record_rows", "recording"}),
        ("pyarrow", {"recording"}),
    ):
        at_load = {
            name
            for name, text in lines.items()
            for line in text
            if line.startswith((f"import {package}", f"from {package}"))
        }
        assert at_load == those
