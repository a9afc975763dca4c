"""Writes what the fuzzers begin with: `python hostlib/fuzz/seeds.py FOLDER` fills FOLDER/{policy,model,length}."""

import struct
import sys
from pathlib import Path

import numpy as np
from qclimb.forest import KEY_MAX, Forest, float_key, lower_key, round_down, upper_key
from qclimb.hostfile import encode_forest, encode_policy
from qclimb.lengthfile import encode_lengths
from qclimb.lengths import Announced, LengthRule, Service, Use
from qclimb.policy import Mode, Policy

UNKNOWN = 2**64 - 1


def policies() -> list[bytes]:
    """Each mode, from 1 to 64 priorities, with flows (struct numbers of policy_fuzz.c) at their thresholds."""
    found = []
    for mode in Mode:
        for priorities in (1, 2, 8, 64):
            thresholds = tuple(1460 * p * p for p in range(1, priorities))
            policy = Policy(1, mode, thresholds, tuple(range(priorities)), slack_bytes=1460 * priorities)
            size = thresholds[-1] if thresholds else 100
            flow = struct.pack("<6Q", size // 2, size, 3 * size, size // 3, 2 * size, size)
            found += [encode_policy(policy), encode_policy(policy) + flow]
            found.append(encode_policy(policy) + struct.pack("<6Q", 0, UNKNOWN, 1, 0, UNKNOWN, UNKNOWN - 1))
    return found


def forest(trees: int, depth: int, features: int) -> Forest:
    """Full trees of a depth, each split of a level on the next feature."""
    columns: list[list[int]] = [[], [], [], [], []]
    roots = []
    for _ in range(trees):
        base = len(columns[0])
        roots.append(base)
        inner = 2**depth - 1
        for node in range(2 * inner + 1):
            low, high = 100 * (node + 1), 1000 * (node + 1)
            row = (
                (node % features, int(float_key(round_down(low))), base + 2 * node + 1, 0, 0)
                if node < inner
                else (0, KEY_MAX, base + node, int(lower_key(low)), int(upper_key(high)))
            )
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    feature, threshold, child, lower, upper = (np.array(column, np.int32) for column in columns)
    ids = tuple(range(features))
    return Forest(1, ids, trees, depth, feature, threshold, child, lower, upper, np.array(roots, np.int32))


def models() -> list[bytes]:
    """From a lone leaf to several trees of some depth."""
    return [encode_forest(forest(*shape)) for shape in ((1, 0, 1), (1, 1, 1), (2, 2, 3), (3, 4, 12), (130, 0, 2))]


def lengths() -> list[bytes]:
    """Rules (struct qclimb_length_rule) before heads of messages: binary frames, HTTP's requests and answers."""
    rules = [
        struct.pack("<h6B", *rule) for rule in ((16, 12, 4, 0, 0, 0, 0), (0, 0, 8, 1, 0, 0, 0), (4, 1, 3, 1, 1, 0, 0))
    ]
    heads = [
        struct.pack("<4I", 1, 2, 3, 10) + bytes(10) + struct.pack("<4I", 1, 2, 3, 100),
        struct.pack(">Q", 20) + bytes(12) + struct.pack(">Q", 8),
        b"\0" + (40).to_bytes(3, "big") + bytes(60),
        b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 1234\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nHost: b\r\ncontent-length: 7\r\n\r\n",
    ]
    service = Service("nginx", 1, 80)
    told = [Announced(service, None, Use.FORBIDDEN), Announced(service, LengthRule(0, 8), Use.IN_FORCE)]
    return [rule + head for rule in rules for head in heads] + [encode_lengths(told[:count]) for count in range(3)]


def main(folder: Path) -> None:
    """Writes them, one a file."""
    for name, files in (("policy", policies()), ("model", models()), ("length", lengths())):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(files):
            (folder / name / f"seed{number}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
