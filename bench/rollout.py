"""What a rollout costs the orchestrator for each switch: `python -m bench rollout`.

N switches, over mTLS, at one server that takes each Set and tells what it was last given (`python -m bench.rollout`, a
process of its own): each push is two Gets, a Set and the read-back, and a session more to confirm it. `ms` is CPU time
of the orchestrator's part alone, in this process; `ratio` is to the smallest N. `host ms` is a report of one of `HOSTS`
hosts while the rollout awaits them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.pki import Authority
from qclimb.policy import Mode

from orchestrator.fabric.runner import Runner
from orchestrator.fabric.switches import Fleet
from orchestrator.plan.revision import compose
from orchestrator.store.store import Store

SWITCHES = (100, 300, 1000, 3000)
WARM_UP = 10
HOSTS = 20_000
REPORTS = 500

Row = dict[str, Any]


class Switch(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """Holds the last intent."""

    def __init__(self) -> None:
        self.intent: Row = {}

    def Capabilities(self, request: Any, context: Any) -> Any:
        """JSON_IETF of our model."""
        models = [pb.ModelData(name="qclimb")]
        return pb.CapabilityResponse(supported_models=models, supported_encodings=[pb.JSON_IETF])

    def Get(self, request: Any, context: Any) -> Any:
        """The intent, or its generation as applied."""
        (path,) = request.path
        value = self.intent
        if path.elem[-1].name == "commit":
            value = {}
        if path.elem[-1].name == "applied-generation":
            value = self.intent.get("config", {}).get("generation")
        update = pb.Update(path=path, val=pb.TypedValue(json_ietf_val=json.dumps(value).encode()))
        return pb.GetResponse(notification=[pb.Notification(timestamp=time.time_ns(), update=[update])])

    def Set(self, request: Any, context: Any) -> Any:
        """Replaces it, or hears that it stays."""
        if not request.replace:
            return pb.SetResponse(timestamp=time.time_ns())
        self.intent = json.loads(request.replace[0].val.json_ietf_val)
        return pb.SetResponse(timestamp=time.time_ns())


def serve(folder: Path) -> None:
    """Until the end of its input; prints its port."""
    read = [(folder / name).read_bytes() for name in ("switch.key", "switch.pem", "ca.pem")]
    server = grpc.server(futures.ThreadPoolExecutor(4))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(Switch(), server)
    credentials = grpc.ssl_server_credentials([(read[0], read[1])], read[2], require_client_auth=True)
    print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """Its port."""
    authority = Authority(folder)
    authority.server("switch", "127.0.0.1")
    authority.client("orchestrator")
    with subprocess.Popen(
        [sys.executable, "-m", "bench.rollout", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def measured(folder: Path, port: int, switches: int) -> Row:
    """One rollout to so many."""
    store = Store(f"sqlite:///{folder / f'{switches}.db'}")
    with store.writing():
        for number in range(switches):
            store.put_switch(f"s{number}", f"127.0.0.1:{port}", "leaf", None)
        for number in range(HOSTS):
            store.put_host(f"h{number}")
    fleet = Fleet(folder / "orchestrator.pem", folder / "orchestrator.key", folder / "ca.pem")
    runner = Runner(store, fleet)
    revision = store.add_revision("bench", compose(Mode.PIAS, (5000, 500_000), 3, slack_bytes=0).to_json())
    begun, at = time.process_time(), time.monotonic()
    number = runner.start(revision, "bench")
    while not store.setting("policy"):
        time.sleep(0.05)
        assert store.rollout(number).phase == "running", store.rollout(number).document["error"]
    push_s, wall_s = time.process_time() - begun, time.monotonic() - at
    begun = time.process_time()
    generation = store.rollout(number).generation
    for host in range(REPORTS):
        runner.host_reported(f"h{host}", generation)
    report_s = time.process_time() - begun
    runner.close()
    store.close()
    return {
        "switches": switches,
        "CPU s": push_s,
        "ms": 1000 * push_s / switches,
        "wall s": wall_s,
        "host ms": 1000 * report_s / REPORTS,
    }


def run() -> list[Row]:
    """See above."""
    with TemporaryDirectory(prefix="qclimb-bench-") as made, server(Path(made)) as port:
        measured(Path(made), port, WARM_UP)  # what is imported once
        rows = [measured(Path(made), port, switches) for switches in SWITCHES]
    return [{**row, "ratio": row["ms"] / rows[0]["ms"]} for row in rows]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
