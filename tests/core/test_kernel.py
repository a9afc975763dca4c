"""The core in the kernel: the verifier accepts it, and what it answers there is what it answers here."""

import ctypes
import json
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from tests.core.core import INCLUDE, Core

PROGRAMS = INCLUDE.parent / "tests"
MOST_STEPS = 20_000
"""Of the verifier, which gives up at a million: a rule that branches on the flow made it follow that many."""


@pytest.fixture(params=["kernel"])
def loaded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """(pinned program, what the verifier said), in a BPF file system of this test's own."""
    if os.geteuid() != 0:
        pytest.skip("loading a BPF program needs root")
    for tool in ("clang", "bpftool"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    built, place = tmp_path / "kernel.o", tmp_path / "bpf"
    multiarch = subprocess.check_output(["cc", "-print-multiarch"], text=True).strip()
    flags = ["-target", "bpf", "-ffreestanding", "-O2", "-g", f"-I{INCLUDE}", "-isystem", f"/usr/include/{multiarch}"]
    subprocess.run(["clang", *flags, "-c", str(PROGRAMS / f"{request.param}.bpf.c"), "-o", str(built)], check=True)
    place.mkdir()
    if subprocess.run(["mount", "-t", "bpf", "bpf", str(place)], capture_output=True).returncode:
        pytest.skip("no BPF file system can be mounted here")
    try:
        pin, maps = place / "program", place / "maps"
        done = subprocess.run(
            ["bpftool", "-d", "prog", "load", str(built), str(pin), "pinmaps", str(maps)],
            capture_output=True,
            text=True,
        )
        said = done.stdout + done.stderr
        if "Operation not permitted" in said and "processed" not in said:
            pytest.skip("this kernel lets nobody load BPF programs")
        assert done.returncode == 0, said[-2000:]
        yield pin, said
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("loaded", ["kernel", "length"], indirect=True)
def test_the_verifier_accepts_the_rule_in_few_steps(loaded: tuple[Path, str]) -> None:
    steps = [int(line.split()[1]) for line in loaded[1].splitlines() if line.startswith("processed ")]
    assert steps
    assert max(steps) < MOST_STEPS


class Flow(ctypes.Structure):
    """`struct flow` of kernel.bpf.c."""

    _fields_ = [
        ("asked_bytes", ctypes.c_uint64),
        ("fixed_lower_bytes", ctypes.c_uint64),
        ("lower_bytes", ctypes.c_uint64),
        ("upper_bytes", ctypes.c_uint64),
        ("is_fixed", ctypes.c_uint8),
        ("has_forest", ctypes.c_uint8),
        ("has_hint", ctypes.c_uint8),
        ("deadline_tick", ctypes.c_uint32),
        ("sent_bytes", ctypes.c_uint64),
        ("next_change_bytes", ctypes.c_uint64),
        ("size_key", ctypes.c_uint64),
    ]


def test_the_kernel_serves_a_flow_as_the_library_does(loaded: tuple[Path, str], core: Core, tmp_path: Path) -> None:
    pin, _ = loaded
    thresholds = (0, 2_000, 20_000, 60_000)
    policy = Policy(1, Mode.QCLIMB, thresholds[1:], default_dscp(4), slack_bytes=4_000, use_footprint=False)
    lower, upper = 25_000, 90_000
    packet = tmp_path / "packet"
    packet.write_bytes(bytes(1_000))
    write_map(pin.parent / "maps" / "policies", encode_policy(policy))
    for sent in range(0, 100_000, 3_100):
        flow = Flow(lower_bytes=lower, upper_bytes=upper, has_forest=1, sent_bytes=sent)
        write_map(pin.parent / "maps" / "flows", bytes(flow))
        ran = subprocess.check_output(["bpftool", "-j", "prog", "run", "pinned", str(pin), "data_in", str(packet)])
        priority = core.priority(thresholds, (lower, upper, 4_000), sent)
        assert json.loads(ran)["retval"] == default_dscp(4)[priority] << 2
        after = Flow.from_buffer_copy(read_map(pin.parent / "maps" / "flows"))
        assert after.next_change_bytes == core.next_change(thresholds, (lower, upper, 4_000), sent)
        assert after.size_key == core.c.probe_float_key_of_u64(ctypes.c_uint64(after.sent_bytes - sent))


@pytest.mark.parametrize("loaded", ["length"], indirect=True)
def test_a_rule_foretells_in_the_kernel_what_it_foretells_in_the_library(
    loaded: tuple[Path, str], core: Core, tmp_path: Path
) -> None:
    pin, _ = loaded
    chance = random.Random(1)
    packet, told = tmp_path / "packet", 0
    for number in range(60):
        width = chance.choice((2, 3, 4, 8))
        offset = chance.choice((0, 12, chance.randrange(64 - width), 64 - width))
        tag = (number % 3 == 0, chance.randrange(64), chance.randrange(2))
        rule = struct.pack("<hBBBBBB", chance.randrange(-4096, 4097), offset, width, number % 2, *tag)
        head = bytearray(chance.choice((0, 0, 1, 255)) for _ in range(chance.randrange(14, 80)))
        packet.write_bytes(head)
        write_map(pin.parent / "maps" / "foretold", rule + bytes(8))
        subprocess.check_output(["bpftool", "-j", "prog", "run", "pinned", str(pin), "data_in", str(packet)])
        found = int.from_bytes(read_map(pin.parent / "maps" / "foretold")[8:], "little")
        assert found == core.size_of_message(rule, bytes(head)), (rule.hex(), head.hex())
        told += found > 0
    assert 10 < told < 60


def write_map(pin: Path, value: bytes) -> None:
    words = [*["key", *"0000"], "value", *map(str, value)]
    subprocess.run(["bpftool", "map", "update", "pinned", str(pin), *words], check=True)


def read_map(pin: Path) -> bytes:
    found = subprocess.check_output(["bpftool", "-j", "map", "lookup", "pinned", str(pin), "key", *"0000"])
    return bytes(int(byte, 16) for byte in json.loads(found)["value"])
