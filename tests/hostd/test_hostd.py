"""hostd as a process, beside an orchestrator that is a stand-in."""

import struct
import zlib

from qclimb.histogram import SizeHistogram
from qclimb.hostfile import MODEL_HEADER, MODEL_MAGIC, decode_policy
from qclimb.record import RecordBatch

from tests.hostd.bench import Hostd, StandIn, policy, record, wait_for


def model(generation: int, trees: int = 2, nodes: int = 6) -> bytes:
    """A model file whose outside is right: what hostd has to judge."""
    header = MODEL_HEADER.pack(
        MODEL_MAGIC, 1, MODEL_HEADER.size, generation, trees, 2, nodes, nodes, 2, bytes([0, 1]), 0
    )
    body = header + bytes(4 * trees + 20 * nodes)
    return body + struct.pack("<I", zlib.crc32(body))


def test_a_new_policy_reaches_the_disk_and_the_heartbeat_names_it(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_for(lambda: standin.heartbeats(7))
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(7)
    standin.policy = policy(8, slack_bytes=1)
    wait_for(lambda: standin.heartbeats(8))
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(8, slack_bytes=1)
    found = wait_for(lambda: hostd.state().get("policy_generation") == 8 and hostd.state())
    assert (found["mode"], found["error"]) == ("pias", "")


def test_records_arrive_at_the_orchestrator_with_their_sizes(hostd: Hostd, standin: StandIn) -> None:
    sent = tuple(record(size, comm="app", peer_addr="198.19.1.2") for size in (1, 5000, 2**40))
    hostd.send(RecordBatch(sent[:2], dropped=3, generation=4))
    hostd.send(RecordBatch(sent[2:], dropped=2))
    wait_for(lambda: len(standin.records) >= 3)
    assert tuple(standin.records) == sent
    assert sum(post["dropped"] for post in standin.posts) == 5
    total = SizeHistogram()
    for post in standin.posts:
        total = total + SizeHistogram.from_json(post["histogram"])
    assert total == SizeHistogram.of(found.size_bytes for found in sent)
    assert all(post["label"] is None for post in standin.posts)
    assert standin.content_types == {"application/json"}
