"""What the tests of the gNMI door say to it: by pygnmi's stub over mutual TLS."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.internal import encoder
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.intent import QueueClass, SwitchIntent

from tests.switchd.stand import Daemon, Redis


def credentials(daemon: Daemon, name: str, ca: str = "ca") -> grpc.ChannelCredentials:
    def read(which: str, kind: str) -> bytes:
        return Path(daemon.pki.file(which, kind)).read_bytes()

    return grpc.ssl_channel_credentials(read(ca, "pem"), read(name, "key"), read(name, "pem"))


def channel(daemon: Daemon, name: str, ca: str = "ca", options: Any = None) -> grpc.Channel:
    return grpc.secure_channel(f"127.0.0.1:{daemon.port}", credentials(daemon, name, ca), options)


def intent(generation: int, *queues: int, **more: Any) -> SwitchIntent:
    return SwitchIntent(
        generation, "enabled", tuple(QueueClass(p, 47 - 4 * p, q) for p, q in enumerate(queues)), **more
    )


def ietf(obj: Any) -> pb.TypedValue:
    return pb.TypedValue(json_ietf_val=json.dumps(obj).encode())


def update(where: str, value: pb.TypedValue) -> pb.Update:
    return pb.Update(path=path(where), val=value)


def give(stub: gnmi_pb2_grpc.gNMIStub, wanted: SwitchIntent) -> None:
    stub.Set(pb.SetRequest(replace=[update("/", ietf(wanted.to_gnmi()))]))


def config_rows(server: Redis) -> dict[str, Any]:
    return server.rows("QCLIMB", "QCLIMB_CLASS", "QCLIMB_PATH")


def stored(server: Redis) -> SwitchIntent:
    return SwitchIntent.from_config_db(config_rows(server))


def failure(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code().name, error.value.details()


def got(stub: gnmi_pb2_grpc.gNMIStub, *where: str, **more: Any) -> list[Any]:
    more.setdefault("encoding", pb.JSON_IETF)
    response = stub.Get(pb.GetRequest(path=[path(each) for each in where], **more))
    return [
        [json.loads(u.val.json_ietf_val or u.val.json_val) for u in notification.update]
        for notification in response.notification
    ]


BASE = intent(1, 7, 6, 5)
GENERATION = "/qclimb/config/generation"
CLASS_0 = "/qclimb/classes/class[priority=0]"


def one(where: str, value: pb.TypedValue) -> pb.SetRequest:
    return pb.SetRequest(update=[update(where, value)])


def union_replace(*updates: pb.Update, **more: Any) -> pb.SetRequest:
    """A request with the field that pygnmi's stubs do not know."""
    serialized = [each.SerializeToString() for each in updates]
    fields = b"".join(b"\x32" + encoder._VarintBytes(len(each)) + each for each in serialized)
    return pb.SetRequest.FromString(fields + pb.SetRequest(**more).SerializeToString())


STREAM, ONCE = pb.SubscriptionList.STREAM, pb.SubscriptionList.ONCE


def subscription(where: str, mode: int, /, **more: Any) -> pb.SubscribeRequest:
    listed = pb.SubscriptionList(
        mode=mode, encoding=pb.JSON_IETF, subscription=[pb.Subscription(path=path(where), **more)]
    )
    return pb.SubscribeRequest(subscribe=listed)


def leaf_values(message: pb.SubscribeResponse) -> dict[str, Any]:
    return {
        "/".join(e.name + "".join(f"[{v}]" for v in e.key.values()) for e in u.path.elem): json.loads(
            u.val.json_ietf_val
        )
        for u in message.update.update
    }
