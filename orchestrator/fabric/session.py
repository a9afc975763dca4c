"""One gNMI session with a switch over mTLS: requests out, JSON in. The only file that knows gRPC and pygnmi's stubs.

They take half a second to load: only where a switch is spoken to.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qclimb.text import printable, printable_json

CALL_TIMEOUT_S = 10.0
SAID_MOST = 1000
"""characters of what a server says that are kept: SONiC's puts all of CONFIG_DB into some of its errors"""


@dataclass(frozen=True)
class Update:
    """A path by the names of its elements, and its JSON value."""

    path: Sequence[str]
    value: Any


class Session:
    """An open session. Errors are gRPC's own, `reason_of` puts them into a line.

    models  names of what the switch serves, by its Capabilities
    """

    def __init__(
        self,
        endpoint: tuple[str, int],
        files: tuple[Path, Path, Path],
        server_name: str | None,
        connect_timeout_s: float,
    ) -> None:
        """`files`: certificate, key, CA. Raises grpc.RpcError, or grpc.FutureTimeoutError."""
        import grpc
        from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

        self._pb = gnmi_pb2
        certificate, key, ca = (file.read_bytes() for file in files)
        host, port = endpoint
        options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        if server_name:
            options.append(("grpc.ssl_target_name_override", server_name))
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        self._channel = grpc.secure_channel(target, credentials, options)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=connect_timeout_s)
            self._stub = gnmi_pb2_grpc.gNMIStub(self._channel)
            told = self._stub.Capabilities(gnmi_pb2.CapabilityRequest(), timeout=CALL_TIMEOUT_S)
        except BaseException:
            self._channel.close()
            raise
        self.models = frozenset(model.name for model in told.supported_models)

    def close(self) -> None:
        """End it."""
        self._channel.close()

    def get(
        self, path: Sequence[str], kind: str = "ALL", *, origin: str = "", target: str = "", timeout_s: float = 0.0
    ) -> Any:
        """The JSON value at a path, None when there is none. `kind`: ALL, CONFIG, STATE."""
        import grpc

        pb = self._pb
        request = pb.GetRequest(
            prefix=pb.Path(target=target, origin=origin),
            path=[self._path(path)],
            type=pb.GetRequest.DataType.Value(kind),
            encoding=pb.JSON_IETF,
        )
        try:
            answer = self._stub.Get(request, timeout=timeout_s or CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            raise
        values = [update.val for notification in answer.notification for update in notification.update]
        return _json(values[0]) if values else None

    def changes(self, path: Sequence[str], *, target: str, timeout_s: float) -> Iterator[Any]:
        """The JSON value at a path, now and whenever it changes (ON_CHANGE), until DEADLINE_EXCEEDED."""
        pb = self._pb
        wanted = pb.SubscriptionList(
            prefix=pb.Path(target=target),
            mode=pb.SubscriptionList.STREAM,
            subscription=[pb.Subscription(path=self._path(path), mode=pb.ON_CHANGE)],
            encoding=pb.JSON_IETF,
        )
        call = self._stub.Subscribe(iter([pb.SubscribeRequest(subscribe=wanted)]), timeout=timeout_s)
        try:
            for message in call:
                yield from (_json(update.val) for update in message.update.update)
        finally:
            call.cancel()

    def set(
        self,
        *,
        delete: Sequence[Sequence[str]] = (),
        replace: Sequence[Update] = (),
        update: Sequence[Update] = (),
        origin: str = "",
        extensions: Sequence[bytes] = (),
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """One Set. `extensions`: each as the bytes of a gnmi_ext.Extension."""
        pb = self._pb
        request = pb.SetRequest(
            prefix=pb.Path(origin=origin),
            delete=[self._path(path) for path in delete],
            replace=[self._update(one) for one in replace],
            update=[self._update(one) for one in update],
        )
        for each in extensions:
            request.extension.add().MergeFromString(each)
        self._stub.Set(request, timeout=timeout_s)

    def _path(self, names: Sequence[str]) -> Any:
        return self._pb.Path(elem=[self._pb.PathElem(name=name) for name in names])

    def _update(self, one: Update) -> Any:
        value = self._pb.TypedValue(json_ietf_val=json.dumps(one.value).encode())
        return self._pb.Update(path=self._path(one.path), val=value)


def _json(value: Any) -> Any:
    """A switch's databases hold any bytes, and what it says is kept, sent and shown."""
    return printable_json(json.loads(value.json_ietf_val or value.json_val or b"null"))


def code_of(error: Exception) -> str:
    """The name of a gRPC error's code; empty where it is none."""
    code = getattr(error, "code", None)
    return str(code().name) if callable(code) and code() is not None else ""


def short(said: object) -> str:
    """What a switch says, as one line that is not too long to be kept and shown."""
    text = " ".join(str(said).split())
    return printable(text if len(text) <= SAID_MOST else text[:SAID_MOST] + "...")


def reason_of(error: Exception) -> str:
    """What an exception has to say, in one line that can be printed."""
    code = code_of(error)
    said = short(error.details() if code else error)  # type: ignore[attr-defined]
    return f"{code}: {said}" if code else said or type(error).__name__
