"""What Prometheus may ask, in a registry of this service's own."""

import threading
import time
from collections.abc import Collection, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from qclimb.switch_state import SwitchState
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .fabric.door import PORT_STATUSES, Told
from .fabric.rollout import Phase
from .store.store import Store


class Metrics:
    """Counters that are kept as things happen; gauges that are read from the store when asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rendering = threading.Lock()
        self._registry = on = CollectorRegistry()
        self._requests = Counter("qclimb_requests", "REST requests", ["method", "route", "status"], registry=on)
        self._seconds = Histogram("qclimb_request_seconds", "REST request duration", ["route"], registry=on)
        self._records = Counter("qclimb_flow_records", "Flow records taken in", ["host"], registry=on)
        self._dropped = Counter(
            "qclimb_flow_records_dropped", "Flow records that hosts had to drop", ["host"], registry=on
        )
        self._unobserved = Counter(
            "qclimb_flow_records_unobserved", "Flows that bypassed the library in part", ["host"], registry=on
        )
        self._not_believed = Counter(
            "qclimb_flows_not_believed", "Flows that hosts' links can't have carried", ["host"], registry=on
        )
        self._push = Histogram("qclimb_switch_push_seconds", "Set to confirmed generation", ["result"], registry=on)
        self._training = Histogram(
            "qclimb_training_seconds", "Training of a model", buckets=(1, 3, 10, 30, 100), registry=on
        )
        self._policy = Gauge("qclimb_policy_generation", "Generation of the policy in force", registry=on)
        self._off = Gauge("qclimb_bounds_off", "1 where the model's bounds were switched off", registry=on)
        self._switched_off = Gauge("qclimb_switched_off", "1 where an operator switched all hosts off", registry=on)
        self._behind = Gauge("qclimb_hosts_behind", "Hosts whose last report is of another generation", registry=on)
        self._silent = Gauge("qclimb_host_silent_seconds", "Since a host's last report", ["host"], registry=on)
        self._drift = Gauge("qclimb_switch_drift", "1 where a switch holds another intent", ["switch"], registry=on)
        self._drifts: dict[str, str | None] = {}
        self._switch = Gauge("qclimb_switch_applied_generation", "Last confirmed generation", ["switch"], registry=on)
        self._spine_up = Gauge(
            "qclimb_spine_up", "1 where a leaf can send packets to a spine", ["switch", "spine"], registry=on
        )
        self._spine_bytes = Gauge(
            "qclimb_spine_pinned_bytes",
            "That a leaf sent there, of pinned priorities",
            ["switch", "spine"],
            registry=on,
        )
        self._spine_out = Gauge("qclimb_spine_left_out", "1 where a spine is held to be down", ["spine"], registry=on)
        self._seen = Gauge(
            "qclimb_switch_seen", "1 where the switch sees in its ASIC what it applied", ["switch"], registry=on
        )
        self._ports = Gauge(
            "qclimb_switch_ports", "Ports by what the switch says of them", ["switch", "status"], registry=on
        )
        self._warning = Gauge(
            "qclimb_switch_warning", "1 where the intent may starve what is not qclimb's", ["switch"], registry=on
        )
        self._alarms = Gauge(
            "qclimb_switch_alarms", "Priorities that take much more than is foretold", ["switch"], registry=on
        )
        self._told: dict[str, Told | None] = {}
        self._rollout = Gauge("qclimb_last_rollout_phase", "1 at the last rollout's phase", ["phase"], registry=on)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A REST request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def flows(self, host: str, records: int, dropped: int, unobserved: int) -> None:
        """A host delivered."""
        self._records.labels(host).inc(records)
        self._dropped.labels(host).inc(dropped)
        self._unobserved.labels(host).inc(unobserved)

    def not_believed(self, host: str, flows: int) -> None:
        """A host told of more flows than its link can have carried."""
        self._not_believed.labels(host).inc(flows)

    def push(self, seconds: float, good: bool) -> None:
        """A switch took its intent, or did not."""
        self._push.labels("applied" if good else "failed").observe(seconds)

    def switch_told(self, name: str, told: Told | None, drift: str | None = None) -> None:
        """A switch was asked how far its ASIC is, None: it did not answer; `drift`: how it differs from its intent."""
        self._told[name], self._drifts[name] = told, drift

    def trained(self, seconds: float) -> None:
        """A model was made."""
        self._training.observe(seconds)

    def spines(self, leaves: Mapping[str, SwitchState], down: Collection[str]) -> None:
        """What leaves told of spines, and which ones are held to be down."""
        with self._rendering:
            for gauge in (self._spine_up, self._spine_bytes, self._spine_out):
                gauge.clear()
            for leaf, state in leaves.items():
                for spine in state.spines.values():
                    self._spine_up.labels(leaf, spine.name).set(spine.status == "up")
                    self._spine_out.labels(spine.name).set(spine.name in down)
                    if spine.bytes is not None:
                        self._spine_bytes.labels(leaf, spine.name).set(spine.bytes)

    def render(self) -> bytes:
        """The text format."""
        with self._rendering:
            return self._render()

    def _render(self) -> bytes:
        policy, hosts, last = self._store.setting("policy"), self._store.hosts(), self._store.last_rollout()
        self._policy.set(0 if policy is None else policy["generation"])
        self._switched_off.set(self._store.off is not None)
        generation = self._store.due_generation
        self._off.set(bool((self._store.setting("drift") or {}).get("off")))
        self._behind.set(sum(host.policy_generation != generation for host in hosts.values()))
        self._silent.clear()  # one that was forgotten is neither silent nor applied
        self._switch.clear()
        for name, host in hosts.items():
            if (silent_s := self._store.silent_s(host)) is not None:
                self._silent.labels(name).set(silent_s)
        self._seen.clear()
        self._ports.clear()
        self._drift.clear()
        self._warning.clear()
        self._alarms.clear()
        for name, switch in self._store.switches().items():
            self._switch.labels(name).set(switch.applied_generation)
            told = self._told.get(name)
            self._drift.labels(name).set(self._drifts.get(name) is not None)
            if told is not None:
                self._seen.labels(name).set(told.verification == "seen")
                self._warning.labels(name).set(bool(told.warning))
                self._alarms.labels(name).set(len(told.alarms))
                for status in {*PORT_STATUSES, *told.ports}:  # so that a 0 can be seen
                    self._ports.labels(name, status).set(told.ports.get(status, 0))
        for phase in Phase:
            self._rollout.labels(phase).set(last is not None and last.phase == phase)
        return generate_latest(self._registry)


class Measured:
    """Counts each request. Plain ASGI: Starlette's BaseHTTPMiddleware takes tasks and queues for each."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self.metrics.request(scope["method"], route, status, time.monotonic() - begun)
