"""From a recording to arrival traces: order, sizes and writes as recorded, gaps rescaled to a load.

QCLIMB's replay (NSDI'24, section 6.1) "keeps arrival order and sizes, rescales gaps to the load". What else has to be
decided, is decided here:

- **Sizes are not divided** (scale 1): the recorded programs' flows are small already. Below 32 bytes, the header of
  the applications' messages, they are raised to it.
- **Job by job.** A recording's tasks (Spark's jobs) are rescaled each by itself, as the paper replays a trace a job;
  else a quiet job would pay for a busy one, and whole seconds be offered more than links carry. A pause of more than
  100 ms (a program that starts, a person that thinks) counts as 100 ms.
- **Places.** Four recorded hosts become eight: each connection is laid on one of eight images of the recorded
  hosts that keep racks apart (exclusive or with 0 to 7), heaviest first, each where hosts then send and receive most
  evenly. All flows of a connection stay together.
- **Side by side.** Training and bulk cannot be laid evenly like that: a parameter server is one end of each of its
  flows, and a hundred uploads are most of bulk. There a window is cut into eight pieces of as many bytes, which run at
  once as eight jobs, each on an image of its own; pieces change places as long as that makes hosts' shares more even.
- **Requests.** Where servers answer clients (web, kv) the answers are replayed, and asked for by the replay's own
  requests of 32 bytes; Spark's peers are replayed in both directions.
- **Parts.** The flows with the first quarter of the bytes are what forests learn from, the rest are cut into windows of
  as many bytes, one a seed.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qclimb import recording
from qclimb.record import BY_HTTP, BY_RULE

from lab.workload.services import MIN_FLOW_BYTES
from lab.workload.sources import Source
from lab.workload.trace import Flow, Trace, wire_bytes

RECORDINGS = Path(__file__).parent.parent / "recordings"
TRAINING_SHARE = 0.25
LONGEST_PAUSE_NS = 100_000_000
PLACES = np.array([0, 1, 4, 5])
"""The recorded hosts (two racks of two) among eight (two racks of four)."""
IMAGES = 8

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@cache
def read(name: str) -> recording.Recording:
    """A shipped recording. Raises: RecordError."""
    return recording.read(RECORDINGS / f"{name}.parquet")


def part_of(wire: Ints, part: int, windows: int) -> slice:
    """Which flows a part is, by their bytes: 0 to learn from, 1 to `windows` to be replayed under the schemes."""
    if not 0 <= part <= windows:
        raise ValueError(f"part is {part}, expected 0 to {windows}")
    shares = np.concatenate(([0.0], np.linspace(TRAINING_SHARE, 1, windows + 1)))
    edges = np.searchsorted(np.cumsum(wire), shares * wire.sum())
    edges[-1] = wire.size
    return slice(int(edges[part]), int(edges[part + 1]))


def replay(
    recorded: recording.Recording, source: Source, seed: int, load: float, hosts: list[str], host_rate_bps: float
) -> Trace:
    """The arrivals of one part: seed 0 to learn from, 1, 2, ... the windows in turn, each time round laid otherwise."""
    if len(hosts) != IMAGES:
        raise ValueError(f"a replay needs {IMAGES} hosts, got {len(hosts)}")
    if not 0 < load < 1:
        raise ValueError(f"load is {load}, expected in (0, 1)")
    numbers, texts = recorded.numbers, recorded.texts
    ports = np.where(numbers["role"] == 1, numbers["local_port"], numbers["peer_port"])
    service_of = {int(port): n % source.services for n, port in enumerate(dict.fromkeys(ports.tolist()))}
    rows = np.flatnonzero((numbers["role"] == 1) | source.both_ways)
    turn, window = divmod(seed - 1, source.windows) if seed else (0, -1)
    size = np.maximum(numbers["size_bytes"][rows].astype(np.int64), MIN_FLOW_BYTES)
    part = part_of(wire_bytes(size), window + 1, source.windows)
    rows, size = rows[part], size[part]
    wire = wire_bytes(size)
    bytes_per_s = load * len(hosts) * host_rate_bps / 8
    start_ns = numbers["start_ns"][rows].astype(np.int64)
    sender, receiver = _recorded_hosts(recorded, rows)
    if source.at_once == 1:
        start_us, seconds = _starts(start_ns, texts["task"][rows], wire, bytes_per_s)
        image = _images(numbers["connection"][rows].astype(np.int64), sender, receiver, wire, turn)
    else:
        start_us, piece, seconds = _side_by_side(start_ns, texts["task"][rows], wire, bytes_per_s, source.at_once)
        image = _evenly(piece, sender, receiver, wire, turn)[piece]
        order = np.argsort(start_us, kind="stable")
        rows, size, wire, start_us, image, sender, receiver = (
            each[order] for each in (rows, size, wire, start_us, image, sender, receiver)
        )
    sender, receiver = PLACES[sender] ^ image, PLACES[receiver] ^ image
    first = np.clip(numbers["first_write_bytes"][rows].astype(np.int64), 1, size)
    asked = np.clip(numbers["footprint_bytes"][rows].astype(np.int64), first, size)
    said = _announced(recorded, rows)
    said[said < asked] = 0
    raised = numbers["size_bytes"][rows].astype(np.int64) < MIN_FLOW_BYTES
    first[raised] = asked[raised] = MIN_FLOW_BYTES
    said[raised & (said == numbers["size_bytes"][rows])] = MIN_FLOW_BYTES
    pulls = numbers["role"][rows] == 1
    client, server = np.where(pulls, receiver, sender), np.where(pulls, sender, receiver)
    flows = tuple(
        Flow(
            n + 1,
            int(start_us[n]),
            f"{'pull' if pulls[n] else 'push'}{service_of[int(ports[rows[n]])]}",
            hosts[client[n]],
            hosts[server[n]],
            int(size[n]),
            int(first[n]),
            int(asked[n]),
            int(said[n]),
        )
        for n in range(rows.size)
    )
    settings = {"load": f"{load:g}", "seed": f"{seed}", "seconds": f"{seconds:.6f}", "recording": source.name}
    return Trace(flows, settings | {"recording_digest": recorded.digest()[:16]})


def _announced(recorded: recording.Recording, rows: Ints) -> Ints:
    """What flows' bytes said of their sizes, where that was a bound; 0: nothing."""
    if "announced_by" not in recorded.numbers:
        return np.zeros(rows.size, np.int64)
    used = np.isin(recorded.numbers["announced_by"][rows], (BY_HTTP, BY_RULE))
    return np.where(used, recorded.numbers["announced_bytes"][rows], 0).astype(np.int64)


def _starts(start_ns: Ints, task: NDArray[Any], wire: Ints, bytes_per_s: float) -> tuple[Ints, float]:
    """Arrival times in us: each run of flows of one task stretched or squeezed until it carries the load; seconds."""
    gap = np.minimum(np.diff(start_ns, prepend=start_ns[:1]), LONGEST_PAUSE_NS).astype(float)
    edges = np.flatnonzero(np.concatenate(([True], task[1:] != task[:-1], [True])))
    start_us, begin = np.zeros(start_ns.size), 0.0
    for low, high in pairwise(edges):
        length = float(wire[low:high].sum()) / bytes_per_s
        passed = np.cumsum(gap[low:high])
        if passed[-1] > 0:
            passed = passed / passed[-1] * length
        start_us[low:high] = (begin + passed) * 1e6
        begin += length
    return start_us.astype(np.int64), begin


def _side_by_side(
    start_ns: Ints, task: NDArray[Any], wire: Ints, bytes_per_s: float, pieces: int
) -> tuple[Ints, Ints, float]:
    """Arrival times in us where pieces of as many bytes run at once; each flow's piece; seconds, alike for all."""
    seconds = float(wire.sum()) / bytes_per_s
    before = np.cumsum(wire) - wire
    piece = np.minimum(before * pieces // wire.sum(), pieces - 1)
    start_us = np.zeros(start_ns.size, np.int64)
    for number in range(pieces):
        mine = piece == number
        if mine.any():
            start_us[mine], _ = _starts(start_ns[mine], task[mine], wire[mine], float(wire[mine].sum()) / seconds)
    return start_us, piece, seconds


def _evenly(piece: Ints, sender: Ints, receiver: Ints, wire: Ints, turn: int) -> Ints:
    """The image of each piece, no two alike: two of them change places while that lowers the sum of the squares."""
    bytes_of = np.zeros((2, IMAGES, PLACES.size))
    np.add.at(bytes_of[0], (piece, sender), wire)
    np.add.at(bytes_of[1], (piece, receiver), wire)
    at = PLACES[None, :] ^ np.arange(IMAGES)[:, None]  # image, recorded host -> host

    def cost(image: Ints) -> float:
        carried = np.zeros((2, IMAGES))
        for number in range(IMAGES):
            carried[:, at[image[number]]] += bytes_of[:, number]
        return float((carried**2).sum())

    image = (np.arange(IMAGES) + turn) % IMAGES
    least = cost(image)
    for _ in range(IMAGES):
        before = least
        for one, other in combinations(range(IMAGES), 2):
            tried = image.copy()
            tried[[one, other]] = tried[[other, one]]
            if (found := cost(tried)) < least:
                image, least = tried, found
        if least == before:
            break
    return image


def _recorded_hosts(recorded: recording.Recording, rows: Ints) -> tuple[Ints, Ints]:
    """Sender and receiver of each row, as places in the order of addresses."""
    local, peer = recorded.texts["local_addr"], recorded.texts["peer_addr"]
    names = sorted({*local, *peer}, key=lambda text: tuple(int(part) for part in text.split(".")))
    if len(names) > PLACES.size:
        raise ValueError(f"the recording has {len(names)} hosts, expected at most {PLACES.size}")
    place = {name: n for n, name in enumerate(names)}
    return np.array([place[x] for x in local[rows]]), np.array([place[x] for x in peer[rows]])


def _images(connection: Ints, sender: Ints, receiver: Ints, wire: Ints, turn: int) -> Ints:
    """For each flow the image of the recorded hosts that its connection is laid on."""
    names, index = np.unique(connection, return_inverse=True)
    bytes_of = np.zeros((2, names.size, PLACES.size))
    np.add.at(bytes_of[0], (index, sender), wire)
    np.add.at(bytes_of[1], (index, receiver), wire)
    at = PLACES[None, :] ^ np.arange(IMAGES)[:, None]  # image, recorded host -> host
    carried = np.zeros((2, IMAGES))
    chosen = np.zeros(names.size, np.int64)
    for n in np.argsort(-bytes_of.sum((0, 2)), kind="stable"):
        tried = np.repeat(carried[None], IMAGES, axis=0)
        for image in range(IMAGES):
            tried[image][:, at[image]] += bytes_of[:, n]
        # The square prefers the busiest to stay low, and of equals the turn says which comes first.
        cost = np.roll((tried**2).sum((1, 2)), -(turn + int(n)) % IMAGES)
        chosen[n] = (int(np.argmin(cost)) + turn + int(n)) % IMAGES
        carried = tried[chosen[n]]
    return chosen[index]


def busiest(trace: Trace) -> float:
    """What the busiest host sends or receives, divided by the mean over hosts."""
    wire = wire_bytes(np.array([flow.bytes for flow in trace.flows]))
    pulls = np.array([flow.service.startswith("pull") for flow in trace.flows])
    client = np.array([flow.client for flow in trace.flows])
    server = np.array([flow.server for flow in trace.flows])
    shares = []
    for end in (np.where(pulls, client, server), np.where(pulls, server, client)):
        shares += [float(wire[end == host].sum()) for host in np.unique(end)]
    return max(shares) * IMAGES / float(wire.sum())
