"""The gRPC face: mutual TLS, one thread pool, every RPC's errors turned into a status with the path in its message.

Messages come as bytes and are parsed here, after the caller is known: grpcio keeps 16 KB of each that it can't parse.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.intent import SwitchIntent

from switchd.apply import Switch
from switchd.board import Snapshot
from switchd.commits import CommitError, OtherCommit
from switchd.counters import rule_totals, totals
from switchd.db import DatabaseLost, RowsChanged
from switchd.elections import NotMaster
from switchd.gnmi import get, set, subscribe
from switchd.gnmi.access import Client, Known, client_of
from switchd.gnmi.errors import (
    ABORTED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    PERMISSION_DENIED,
    UNAVAILABLE,
    RpcError,
    details,
    invalid,
    sendable,
)
from switchd.gnmi.extensions import check_fields, extensions_of
from switchd.gnmi.limits import Limits, Requests, Streams, check_awaited
from switchd.gnmi.model import Model, counts
from switchd.gnmi.path_state import rules_in
from switchd.gnmi.set import Wanted
from switchd.gnmi.tree import Tree
from switchd.gnmi.values import ENCODINGS
from switchd.plan import Refused

log = logging.getLogger("switchd.gnmi")

GNMI_VERSION = "0.10.0"
"""by its SetRequest, which has union_replace"""
UNARY_THREADS = 24
"""beside one a subscription"""
STREAM_WAKE_S = 1.0
OPTIONS = {
    "grpc.so_reuseport": 0,
    "grpc.server_handshake_timeout_ms": 20_000,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.min_ping_interval_without_data_ms": 5_000,
    "grpc.max_connection_idle_ms": 600_000,
    "grpc.max_concurrent_streams": 100,
}
"""A peer that is silent, or gone without a word, keeps nothing."""
Answer = TypeVar("Answer")
Request = TypeVar("Request", bound=Message)


class Servicer:
    """The four RPCs, of one listening port."""

    def __init__(self, switch: Switch, plain: bool = False, limits: Limits | None = None) -> None:
        self.switch, self.plain = switch, plain
        self.limits = limits or Limits()
        self.model = Model()
        self._streams = Streams(self.limits, plain)
        self.closing = threading.Event()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server is given; requests come unparsed."""

        def unary(answer: Callable[[bytes, grpc.ServicerContext], Message]) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(answer, response_serializer=_serialized)

        subscribe_handler = grpc.stream_stream_rpc_method_handler(self.subscribe, response_serializer=_serialized)
        return grpc.method_handlers_generic_handler(
            "gnmi.gNMI",
            {
                "Capabilities": unary(self.capabilities),
                "Get": unary(self.get),
                "Set": unary(self.set),
                "Subscribe": subscribe_handler,
            },
        )

    def capabilities(self, message: bytes, context: grpc.ServicerContext) -> pb.CapabilityResponse:
        """What is served; needs a known client, as all RPCs do."""

        def answer(_: Client) -> pb.CapabilityResponse:
            request = parsed(pb.CapabilityRequest, message)
            extensions_of(request)
            check_fields(request)
            schema = self.model.schema
            model = pb.ModelData(name=schema.module, organization=schema.organization, version=schema.version)
            return pb.CapabilityResponse(
                supported_models=[model], supported_encodings=ENCODINGS, gNMI_version=GNMI_VERSION
            )

        return self._answered(context, answer)

    def get(self, message: bytes, context: grpc.ServicerContext) -> pb.GetResponse:
        """Configuration and state of the last committed moment."""

        def answer(_: Client) -> pb.GetResponse:
            request = parsed(pb.GetRequest, message)
            return get.answer(self.model, request, self.data, lambda: check_awaited(context))

        return self._answered(context, answer)

    def set(self, message: bytes, context: grpc.ServicerContext) -> pb.SetResponse:
        """Answers when the rows are written and applied, or with nothing changed."""

        def answer(client: Client) -> pb.SetResponse:
            client.check_write()
            request = set.checked(parsed(pb.SetRequest, message))
            try:
                with self.switch.writing(request.extensions.election):
                    self._set(request, client, lambda: check_awaited(context))
            except (RpcError, Refused, RowsChanged, CommitError, NotMaster) as error:
                log.warning("set refused client=%s error=%r", client.name, str(error))
                raise
            prefix = request.request.prefix
            return pb.SetResponse(prefix=prefix, response=request.results, timestamp=time.time_ns())

        return self._answered(context, answer)

    def _set(self, request: Wanted, client: Client, check: Callable[[], None]) -> None:
        """Carry it out while nobody else writes."""
        commit = request.extensions.commit
        if commit is not None and commit.action != "commit":
            check()
            self.switch.settle(commit)
            return
        if not request.results and commit is None:
            return

        def wanted(before: SwitchIntent | None) -> SwitchIntent | None:
            tree = self.model.config(before)
            set.change(self.model, request, tree, check)
            intent = self.model.intent(tree)
            check()
            return intent

        intent = self.switch.edit(wanted, commit)
        log.info("set client=%s generation=%s", client.name, intent.generation if intent else None)

    def subscribe(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.SubscribeResponse]:
        """ONCE, POLL, STREAM."""
        try:
            with self._streams.place(client_of(context, self.switch.host, self.plain)):
                yield from self._subscribed(Requests(messages, context), context)
        except Exception as error:
            abort(context, error)

    def _subscribed(self, requests: Requests, context: grpc.ServicerContext) -> Iterator[pb.SubscribeResponse]:
        known = Known(self.switch.host, self.plain)
        first = requests.next(self.limits.first_message_s, "SubscriptionList")
        if first is None:
            return
        wanted = subscribe.checked(self.model, parsed(pb.SubscribeRequest, first))
        if wanted.mode == pb.SubscriptionList.STREAM:
            yield from subscribe.stream(
                self.model,
                wanted,
                self.switch.snapshot,
                lambda version, left_s: self.switch.board.wait_newer(version, min(left_s, STREAM_WAKE_S)),
                self._data,
                lambda: self._goes_on(context, known) and requests.none_came(),
            )
            return
        counted = any(counts(place) for place in wanted.places)
        yield from subscribe.initial(self.model, wanted, self.data(counted))
        while wanted.mode == pb.SubscriptionList.POLL and not self.closing.is_set():
            message = requests.next(self.limits.poll_idle_s, "Poll")
            if message is None:
                return
            if parsed(pb.SubscribeRequest, message).WhichOneof("request") != "poll":
                raise invalid("a POLL subscription expects Poll messages after its first")
            known.check(context)
            yield from subscribe.initial(self.model, wanted, self.data(counted))

    def _goes_on(self, context: grpc.ServicerContext, known: Known) -> bool:
        if not context.is_active() or self.closing.is_set():
            return False
        known.check(context)
        return True

    def data(self, counted: bool) -> Tree:
        """Configuration and state now, with the queues' counters if they are asked for. Raises DatabaseLost."""
        return self._data(self.switch.snapshot, counted)

    def _data(self, snapshot: Snapshot, counted: bool) -> Tree:
        if not counted or not (snapshot.classes or snapshot.steered.spines):
            return self.model.uncounted(snapshot)
        queues = {int(row["queue"]) for row in snapshot.classes.values()}
        ports = snapshot.intent.ports if snapshot.intent else ()
        redirected = rule_totals(self.switch.db, rules_in(snapshot))
        return self.model.data(snapshot, totals(self.switch.db, queues, ports), redirected)

    def _answered(self, context: grpc.ServicerContext, answer: Callable[[Client], Answer]) -> Answer:
        try:
            return answer(client_of(context, self.switch.host, self.plain))
        except Exception as error:
            abort(context, error)


def parsed(kind: type[Request], message: bytes) -> Request:
    """A message of this kind. Raises RpcError INVALID_ARGUMENT where the bytes are none."""
    try:
        found: Request = kind.FromString(message)
        return found
    except DecodeError:
        raise invalid(f"the message is no {kind.DESCRIPTOR.name}: its {len(message)} bytes can't be parsed") from None


def _serialized(message: Message) -> bytes:
    return bytes(message.SerializeToString())


def abort(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    """End the RPC with the status that the error stands for; what nobody foresaw is INTERNAL, and logged whole."""
    match error:
        case RpcError():
            _end(context, error.code, error.text)
        case OtherCommit():
            _end(context, INVALID_ARGUMENT, str(error))
        case Refused() | CommitError():
            _end(context, FAILED_PRECONDITION, str(error))
        case NotMaster():
            _end(context, PERMISSION_DENIED, str(error))
        case RowsChanged():
            _end(context, ABORTED, f"{error}, again and again; try once more")
        case DatabaseLost():
            _end(context, UNAVAILABLE, str(error))
        case grpc.RpcError():
            raise error
        case _ if context.code() is not None or not context.is_active():  # aborted already, or the client is gone
            raise error
        case _:
            log.error("internal error=%r", error, exc_info=error)
            _end(context, INTERNAL, "internal error; the switch's log has it")
    raise error


def _end(context: grpc.ServicerContext, code: grpc.StatusCode, text: str) -> NoReturn:
    text = sendable(text)
    context.set_trailing_metadata((details(code, text),))
    context.abort(code, text)
    raise AssertionError("abort raises")


def start(servicer: Servicer, address: str, credentials: grpc.ServerCredentials | None) -> tuple[grpc.Server, int]:
    """Serve at ADDR:PORT; answers the server and its port (for port 0). Raises OSError where it can't."""
    threads = ThreadPoolExecutor(servicer.limits.streams + UNARY_THREADS, thread_name_prefix="gnmi")
    server = grpc.server(threads, [servicer.handlers()], options=list(OPTIONS.items()))
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(f"can't listen at {address}: {_why_not(address) or error}") from error
    if not port:
        raise OSError(f"can't listen at {address}")
    server.start()
    return server, int(port)


def _why_not(address: str) -> str | None:
    """What the kernel says to a socket at ADDR:PORT, since gRPC keeps that to itself; None where it takes it."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except OSError as error:
        return error.strerror
    return None
