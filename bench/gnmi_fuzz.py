"""Memory of switchd's gNMI server after messages that are wrong in every way: `python -m bench gnmi_fuzz`.

Good messages of all four RPCs are mutated in their bytes, in their fields, or cut off, and sent for FUZZ_S seconds
(an hour where the environment says FUZZ_S=3600) by several connections, some of which are broken off in the middle.
A good Set and Get between them must go on working; the log must have no internal error. FUZZ_LOG names a file in which
switchd's log is kept. With FUZZ_PATIENT=1 no call is given up before it ends, and there are no streams: grpcio keeps
some 100 bytes of each call that is given up (grpc/grpc#43360), and this tells what grows apart from that.
"""

import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from bench.gnmi import GENERATION, OPTIONS, Row, leaf, path, resident_kib, started, switch_redis, whole

CONNECTIONS, POINTS = 6, 12
METHODS = ("Capabilities", "Get", "Set", "Subscribe")
LOST = "Internal error from Core"
"""What grpcio's client says where a call ended while it wrote: why is lost, the server's status among it."""
WORDS = (b"\x00", b"\xff", b"*", b"...", b"qclimb", b"\xe2\x82", b"{}", b"[", b'"', b"-1", b"9" * 30, b"\x7f" * 9)


def good(method: str, chance: random.Random) -> Any:
    """A message that means something."""
    names = [
        ("qclimb",),
        ("qclimb", "config"),
        GENERATION,
        ("qclimb", "classes", "class"),
        ("...", "queue"),
        ("qclimb", "*"),
    ]
    where = path(*chance.choice(names))
    if where.elem[-1].name == "class":
        where.elem[-1].key["priority"] = chance.choice(["0", "1", "*", "x", "9" * 40])
    if method == "Capabilities":
        return pb.CapabilityRequest()
    if method == "Get":
        return pb.GetRequest(path=[where], encoding=pb.JSON_IETF, type=chance.randrange(4))
    if method == "Set":
        if chance.random() < 0.3:
            return whole(chance.randrange(2**64), chance.randint(1, 8))
        val = pb.TypedValue(json_ietf_val=json.dumps(chance.choice([1, "7", {}, [], {"queue": 1}, None])).encode())
        one = pb.Update(path=where, val=val)
        return pb.SetRequest(**{chance.choice(["update", "replace"]): [one], "delete": [where][: chance.randrange(2)]})
    modes = {"mode": chance.randrange(3), "sample_interval": chance.choice([0, 10**9, 5])}
    listed = pb.SubscriptionList(
        mode=chance.randrange(3), encoding=pb.JSON_IETF, subscription=[pb.Subscription(path=where, **modes)]
    )
    return pb.SubscribeRequest(subscribe=listed)


def mutated(message: bytes, chance: random.Random) -> bytes:
    """Some bytes of it are others, more, fewer, or of another kind."""
    found = bytearray(message)
    for _ in range(chance.choice([0, 1, 1, 2, 4, 16])):
        at = chance.randint(0, len(found))
        match chance.randrange(5):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at:at] = chance.choice(WORDS)
            case 2:
                del found[at : at + chance.randint(1, 8)]
            case 3:
                found[at:at] = found[chance.randint(0, len(found)) :][: chance.randint(1, 64)]
            case _:
                found += chance.randbytes(chance.randint(1, 32))
    return bytes(found)


async def attack(port: int, chance: random.Random, until_s: float, told: Counter[str]) -> None:
    """One connection after the other, until the time is over."""
    methods = METHODS[:-1] if is_patient() else METHODS
    while time.monotonic() < until_s:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as channel:
            for _ in range(chance.randint(1, 400)):
                method = chance.choice(methods)
                messages = [mutated(good(method, chance).SerializeToString(), chance) for _ in range(2)]
                told[await (streamed if method == "Subscribe" else asked)(channel, method, messages, chance)] += 1
                if time.monotonic() >= until_s:
                    return


def is_patient() -> bool:
    """Whether no call is given up."""
    return os.environ.get("FUZZ_PATIENT") == "1"


async def asked(channel: grpc.aio.Channel, method: str, messages: list[bytes], chance: random.Random) -> str:
    timeout_s = 30 if is_patient() else chance.choice([0.001, 30, 30, 30])
    try:
        await channel.unary_unary(f"/gnmi.gNMI/{method}")(messages[0], timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        return named(error.code(), error.details())
    return "OK"


def named(code: grpc.StatusCode, text: str | None) -> str:
    """A status; what nobody foresaw with what it says."""
    return f"{code.name}: {text}" if code.name in ("INTERNAL", "UNKNOWN", "UNAVAILABLE") else str(code.name)


async def streamed(channel: grpc.aio.Channel, method: str, messages: list[bytes], chance: random.Random) -> str:
    """Read a little, then leave."""
    call = channel.stream_stream(f"/gnmi.gNMI/{method}")(timeout=chance.choice([0.05, 0.5]))
    try:
        for message in messages[: chance.randint(1, 2)]:
            await call.write(message)
        for _ in range(chance.randint(0, 3)):
            if await call.read() is grpc.aio.EOF:
                break
    except grpc.aio.AioRpcError as error:
        return "ended while it was written to" if error.details() == LOST else named(error.code(), error.details())
    except asyncio.InvalidStateError:  # written to after its end
        return named(await call.code(), await call.details())
    call.cancel()
    return "left"


async def watched(port: int, process: int, seconds: float) -> list[Row]:
    """Memory in the course of it."""
    told: Counter[str] = Counter()
    rows: list[Row] = []
    begun_s = time.monotonic()
    attacks = [
        asyncio.create_task(attack(port, random.Random(seed), begun_s + seconds, told)) for seed in range(CONNECTIONS)
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as channel:
        stub = gnmi_pb2_grpc.gNMIStub(channel)
        for point in range(POINTS + 1):
            await asyncio.sleep(max(begun_s + 5 + (seconds - 5) * point / POINTS - time.monotonic(), 0))
            rows.append(
                {"after s": time.monotonic() - begun_s, "calls": told.total(), "MiB": resident_kib(process) / 1024}
            )
        await asyncio.gather(*attacks)
        await stub.Set(whole(1, 8))
        await stub.Set(leaf(2))
        answer = await stub.Get(pb.GetRequest(path=[path(*GENERATION)], encoding=pb.JSON_IETF))
        assert answer.notification[0].update[0].val.json_ietf_val == b'"2"'
    return [*rows, *({"after s": code, "calls": count} for code, count in told.most_common())]


def run() -> list[Row]:
    """See above."""
    with tempfile.TemporaryDirectory(prefix="qcb") as place, ExitStack() as stack:
        url = stack.enter_context(switch_redis(Path(place)))
        log = Path(os.environ.get("FUZZ_LOG", f"{place}/log"))
        command = [sys.executable, "-m", "switchd.cli", "--redis", url, "--backend", "redis", "--quiet-s", "0"]
        command += ["--plain-loopback", "127.0.0.1:0"]
        ports, process = stack.enter_context(started(command, 1, log))
        found = asyncio.run(watched(ports[0], process, float(os.environ.get("FUZZ_S", "60"))))
        lines = log.read_text().splitlines()
        found += [{"after s": f"log: {kind}", "calls": count} for kind, count in kinds(lines).most_common()]
        bad = [at for at, line in enumerate(lines) if "internal error" in line or "Traceback" in line]
        first = [{"after s": "\n".join(lines[max(bad[0] - 2, 0) : bad[0] + 40])}] if bad else []
        return [*found, {"after s": "internal errors in the log", "calls": len(bad)}, *first]


def kinds(lines: list[str]) -> Counter[str]:
    """Warnings and errors by level and first words; the last line of each traceback."""
    found: Counter[str] = Counter()
    is_inside = False
    for line in lines:
        if line.startswith("Traceback"):
            is_inside = True
        elif is_inside and line and not line[0].isspace():
            found[f"raised {line.partition(':')[0]}"] += 1
            is_inside = False
        elif any(level in line for level in ("WARNING", "ERROR", "CRITICAL")):
            found[" ".join(re.sub(r"\S+=.*", "", line).split()[2:10])] += 1
    return found
