"""The gRPC face: mutual TLS, one thread pool, every RPC's errors turned into a status with the path in its message."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from switchd.apply import Switch
from switchd.counters import totals
from switchd.db import DatabaseLost
from switchd.gnmi import get, set, subscribe
from switchd.gnmi.access import Client, client_of
from switchd.gnmi.errors import FAILED_PRECONDITION, RESOURCE_EXHAUSTED, UNAVAILABLE, RpcError, invalid, sendable
from switchd.gnmi.model import Model, counts
from switchd.gnmi.tree import Tree
from switchd.gnmi.values import ENCODINGS
from switchd.plan import Refused

log = logging.getLogger("switchd.gnmi")

GNMI_VERSION = "0.8.0"
THREADS = 24
STREAMS = 16
"""subscriptions at a time: each holds a thread, and the other RPCs need some"""
STREAM_WAKE_S = 1.0
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Tls:
    """PEM bytes: the server's certificate chain and key, and the CA that clients' certificates must come from."""

    certificate: bytes
    key: bytes
    client_ca: bytes


class Servicer(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """The four RPCs."""

    def __init__(self, switch: Switch, plain: bool = False) -> None:
        self.switch, self.plain = switch, plain
        self.model = Model()
        self._streams = threading.BoundedSemaphore(STREAMS)
        self._writing = threading.Lock()
        self.closing = threading.Event()

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> pb.CapabilityResponse:
        """What is served; needs a known client, as all RPCs do."""

        def answer(_: Client) -> pb.CapabilityResponse:
            set.check_known(request)
            schema = self.model.schema
            model = pb.ModelData(name=schema.module, organization=schema.organization, version=schema.version)
            return pb.CapabilityResponse(
                supported_models=[model], supported_encodings=ENCODINGS, gNMI_version=GNMI_VERSION
            )

        return self._answered(context, answer)

    def Get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetResponse:
        """Configuration and state of the last committed moment."""
        return self._answered(context, lambda _: get.answer(self.model, request, self.data))

    def Set(self, request: pb.SetRequest, context: grpc.ServicerContext) -> pb.SetResponse:
        """Answers when the rows are written and applied, or with nothing changed."""

        def answer(client: Client) -> pb.SetResponse:
            client.check_write()
            with self._writing:
                before = self.switch.intent_now()
                try:
                    intent, response = set.requested(self.model, request, self.model.config(before))
                    if response.response:
                        self.switch.commit(intent)
                except (RpcError, Refused) as error:
                    log.warning("set refused client=%s error=%r", client.name, str(error))
                    raise
                if response.response:
                    log.info("set client=%s generation=%s", client.name, intent.generation if intent else None)
            return response

        return self._answered(context, answer)

    def Subscribe(
        self, requests: Iterator[pb.SubscribeRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.SubscribeResponse]:
        """ONCE, POLL, STREAM."""
        if not self._streams.acquire(blocking=False):
            abort(context, RpcError(RESOURCE_EXHAUSTED, f"{STREAMS} subscriptions are open already"))
        try:
            yield from self._subscribed(requests, context)
        except Exception as error:
            abort(context, error)
        finally:
            self._streams.release()

    def _subscribed(
        self, requests: Iterator[pb.SubscribeRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.SubscribeResponse]:
        client_of(context, self.switch.db, self.plain)
        first = next(requests, None)
        if first is None:
            return
        wanted = subscribe.checked(self.model, first)
        if wanted.mode == pb.SubscriptionList.STREAM:
            watched = Requests(requests, context)
            yield from subscribe.stream(
                self.model,
                wanted,
                self.switch.snapshot,
                lambda version: self.switch.wait_newer(version, STREAM_WAKE_S),
                lambda: context.is_active() and not self.closing.is_set() and watched.ok(),
            )
            return
        counted = any(counts(place) for place in wanted.places)
        yield from subscribe.initial(self.model, wanted, self.data(counted))[1]
        if wanted.mode == pb.SubscriptionList.POLL:
            for request in requests:
                if request.WhichOneof("request") != "poll":
                    raise invalid("a POLL subscription expects Poll messages after its first")
                yield from subscribe.initial(self.model, wanted, self.data(counted))[1]

    def data(self, counted: bool) -> Tree:
        """Configuration and state now, with the queues' counters if they are asked for. Raises DatabaseLost."""
        snapshot = self.switch.snapshot
        if not counted or not snapshot.classes:
            return self.model.data(snapshot)
        queues = {int(row["queue"]) for row in snapshot.classes.values()}
        ports = snapshot.intent.ports if snapshot.intent else ()
        return self.model.data(snapshot, totals(self.switch.db, queues, ports))

    def _answered(self, context: grpc.ServicerContext, answer: Callable[[Client], Answer]) -> Answer:
        try:
            return answer(client_of(context, self.switch.db, self.plain))
        except Exception as error:
            abort(context, error)


class Requests:
    """Reads what a client sends on a running stream: a second SubscriptionList, or anything else, is an error."""

    def __init__(self, requests: Iterator[pb.SubscribeRequest], context: grpc.ServicerContext) -> None:
        self.error: RpcError | None = None
        self._requests = requests
        threading.Thread(target=self._read, daemon=True, name="subscribe-requests").start()

    def _read(self) -> None:
        try:
            for _ in self._requests:
                self.error = invalid("a STREAM subscription takes one SubscriptionList and no further message")
                return
        except grpc.RpcError:  # the client is gone
            return

    def ok(self) -> bool:
        """True while nothing was sent; raises the error otherwise."""
        if self.error:
            raise self.error
        return True


def abort(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    """End the RPC with the status that the error stands for; what nobody foresaw is INTERNAL, and logged whole."""
    match error:
        case RpcError():
            context.abort(error.code, error.text)
        case Refused():
            context.abort(FAILED_PRECONDITION, sendable(str(error)))
        case DatabaseLost():
            context.abort(UNAVAILABLE, sendable(str(error)))
        case grpc.RpcError():
            raise error
        case _ if context.code() is not None or not context.is_active():  # aborted already, or the client is gone
            raise error
        case _:
            log.error("internal error=%r", error, exc_info=error)
            context.abort(grpc.StatusCode.INTERNAL, "internal error; the switch's log has it")
    raise error


def start(servicer: Servicer, address: str, tls: Tls | None) -> tuple[grpc.Server, int]:
    """Serve at ADDR:PORT; answers the server and its port (for port 0). Raises OSError where it can't."""
    server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="gnmi"), options=[("grpc.so_reuseport", 0)])
    gnmi_pb2_grpc.add_gNMIServicer_to_server(servicer, server)
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials(
                [(tls.key, tls.certificate)], tls.client_ca, require_client_auth=True
            )
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
