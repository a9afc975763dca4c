"""A stand-in for SONiC's own gNMI server with native write, by what was measured of the real one over the real patcher.

Origin exactly `sonic-db`; values as json_ietf_val alone; an update puts a whole node, a replace of a row that is not
there fails, a delete of one succeeds; a Set is one patch: checked whole against YANG, then written row by row, read
again and compared; a failure is UNKNOWN with the first line of the patcher's that says Error, whatever was written by
then. Extensions and a target are ignored. Get of a missing row is NOT_FOUND, and so is a Get as plain JSON.

Of its source (5ec1c20): a table or a row is an object, a field a text or a list, and nobody looks at what is in a row:
a number there is written as text, so that the patcher finds another value than it wanted. A subscription by target
tells a row at once, as {} where there is none, and when `hset` comes for it and it differs; it is silent when the row
or one of its fields is deleted, and knows ON_CHANGE and SAMPLE alone.
"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.errors import QclimbError
from qclimb.schema import validate_config_db

from tests.switchd.stand import CONFIG, STATE, Redis

DATABASES = {"CONFIG_DB": CONFIG, "STATE_DB": STATE}
WITH_YANG = ("QCLIMB", "QCLIMB_CLASS", "QCLIMB_PATH", "QCLIMB_PREVIOUS", "PORT", "DEVICE_METADATA")
ROLE = "gnmi_config_db_readwrite"
Json = dict[str, Any]
UNEQUAL = "Error: after applying patch to config, there are still some parts not updated"


class SonicGnmi(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """Over one redis. `pause_s`: after each row that its patcher writes; it breaks after `fails_after` rows.

    streams   None: it has them; or the code by which it refuses them
    asked, subscribed   the targets of Gets and of subscriptions, in their order
    """

    def __init__(self, server: Redis, pause_s: float = 0.01, streams: grpc.StatusCode | None = None) -> None:
        self.server, self.pause_s, self.fails_after, self.streams = server, pause_s, 10**9, streams
        self.sets: list[pb.SetRequest] = []
        self.asked: list[str] = []
        self.subscribed: list[str] = []
        self._one = threading.Lock()

    def Capabilities(self, request: pb.CapabilityRequest, context: grpc.ServicerContext) -> pb.CapabilityResponse:
        self._client(context)
        model = pb.ModelData(name="sonic-db", organization="SONiC", version="0.1.0")
        encodings = [pb.JSON, pb.JSON_IETF, pb.PROTO]
        return pb.CapabilityResponse(supported_models=[model], supported_encodings=encodings, gNMI_version="0.7.0")

    def Get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetResponse:
        self._client(context)
        self.asked.append(request.prefix.target)
        if request.type != pb.GetRequest.ALL:
            name = pb.GetRequest.DataType.Name(request.type)
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unsupported request type: {name}")
        found = []
        for path in request.path:
            if request.encoding != pb.JSON_IETF:
                context.abort(grpc.StatusCode.NOT_FOUND, f"No valid entry found for path {path}")
            names = [elem.name for elem in (*request.prefix.elem, *path.elem)]
            if request.prefix.target in DATABASES:
                database, place = request.prefix.target, names
            else:
                self._check_origin(request.prefix, path, context)
                database, place = names[0], names[2:]
            value = self._read(DATABASES[database], *(name.replace("~1", "/") for name in place))
            if not value and len(place) == 1 and self.server.db(DATABASES[database]).keys(f"{place[0]}*"):
                continue  # it looks for the table by `NAME*`, which finds NAME_OTHER too
            if not value:
                context.abort(grpc.StatusCode.NOT_FOUND, f"No valid entry found for path {path}")
            val = pb.TypedValue(json_ietf_val=json.dumps(value).encode())
            found.append(pb.Notification(update=[pb.Update(path=path, val=val)]))
        return pb.GetResponse(notification=found)

    def Set(self, request: pb.SetRequest, context: grpc.ServicerContext) -> pb.SetResponse:
        roles = self._client(context)
        if not (request.delete or request.replace or request.update):
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Translib write is disabled")
        if ROLE not in roles:
            said = f" does not have access, target gnmi_config_db, role {','.join(roles)}"
            context.abort(grpc.StatusCode.UNKNOWN, said)
        with self._one:
            self.sets.append(request)
            before = {table: self._read(CONFIG, table) for table in self._tables()}
            after = json.loads(json.dumps(before))
            for path in request.delete:
                self._delete(after, self._place(request, path, context))
            for one in request.replace:
                place = self._place(request, one.path, context)
                if self._at(after, place) is None:
                    context.abort(grpc.StatusCode.UNKNOWN, f"Invalid database {place[0]} -> {before}")
                self._put(after, place, self._value(place, one, context), context)
            for one in request.update:
                place = self._place(request, one.path, context)
                self._put(after, place, self._value(place, one, context), context)
            self._patch(before, after, context)
        return pb.SetResponse()

    def Subscribe(
        self, requests: Iterator[pb.SubscribeRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.SubscribeResponse]:
        self._client(context)
        wanted = next(requests).subscribe
        self.subscribed.append(wanted.prefix.target)
        if self.streams is not None:
            context.abort(self.streams, "no streams")
        if wanted.prefix.target not in DATABASES:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Empty target data not supported")
        (one,) = wanted.subscription
        if one.mode != pb.ON_CHANGE:
            mode = pb.SubscriptionMode.Name(one.mode)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unsupported subscription mode, {mode}")
        database, (table, key) = DATABASES[wanted.prefix.target], (elem.name for elem in one.path.elem)

        def told(row: Json) -> pb.SubscribeResponse:
            update = pb.Update(path=one.path, val=pb.TypedValue(json_ietf_val=json.dumps(row).encode()))
            return pb.SubscribeResponse(update=pb.Notification(prefix=wanted.prefix, update=[update]))

        with self.server.db(database).pubsub() as events:
            events.psubscribe(f"__keyspace@{database}__:{table}|{key}")
            yield told(self._read(database, table, key))
            yield pb.SubscribeResponse(sync_response=True)
            last: Json = {}
            while context.is_active():
                event = events.get_message(ignore_subscribe_messages=True, timeout=0.05)
                if event and event["data"] == "hset" and (row := self._read(database, table, key)) not in ({}, last):
                    yield told(row)
                    last = row

    def _patch(self, before: Json, after: Json, context: grpc.ServicerContext) -> None:
        keys = {(table, key) for rows in (before, after) for table, entries in rows.items() for key in entries}
        changed = [k for k in sorted(keys) if before.get(k[0], {}).get(k[1]) != after.get(k[0], {}).get(k[1])]
        if not all(after.values()) or {table for table, _ in changed} - {*WITH_YANG}:
            context.abort(grpc.StatusCode.UNKNOWN, "Error: Failed to apply patch on the following scopes:")
        try:
            validate_config_db(after)
        except QclimbError:
            said = f"Error: Validate json patch: {changed} failed due to: Data Loading Failed"
            context.abort(grpc.StatusCode.UNKNOWN, said)
        config = self.server.db(CONFIG)
        for count, (table, key) in enumerate(changed):
            if count >= self.fails_after:
                context.abort(grpc.StatusCode.UNKNOWN, UNEQUAL)
            row = after.get(table, {}).get(key)
            if row is None:
                config.delete(f"{table}|{key}")
            else:
                texts = _texts(row)
                config.hset(f"{table}|{key}", mapping=texts)
                if gone := set(config.hkeys(f"{table}|{key}")) - texts.keys():
                    config.hdel(f"{table}|{key}", *gone)
            time.sleep(self.pause_s)
        found = {table: self._read(CONFIG, table) for table in self._tables()}
        if found != after:
            context.abort(grpc.StatusCode.UNKNOWN, UNEQUAL)

    def _client(self, context: grpc.ServicerContext) -> list[str]:
        (name,) = context.auth_context()["x509_common_name"]
        row = self.server.db(CONFIG).hgetall(f"GNMI_CLIENT_CERT|{name.decode()}")
        if not row:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Unauthenticated")
        return [role.strip() for role in row.get("role@", "").split(",")]

    def _check_origin(self, prefix: pb.Path, path: pb.Path, context: grpc.ServicerContext) -> None:
        if (prefix.origin or path.origin) != "sonic-db":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Translib write is disabled")

    def _place(self, request: pb.SetRequest, path: pb.Path, context: grpc.ServicerContext) -> list[str]:
        self._check_origin(request.prefix, path, context)
        names = [elem.name for elem in (*request.prefix.elem, *path.elem)]
        if names[0] != "CONFIG_DB":
            said = f" does not have write access, target gnmi_{names[0].lower()}"
            context.abort(grpc.StatusCode.UNKNOWN, said)
        return [name.replace("~1", "/").replace("~0", "~") for name in names[2:]]

    def _value(self, place: list[str], update: pb.Update, context: grpc.ServicerContext) -> Any:
        if update.val.WhichOneof("value") != "json_ietf_val":
            context.abort(grpc.StatusCode.UNKNOWN, "Fail to parse ")
        value = json.loads(update.val.json_ietf_val)
        name, kind = {1: ("table", dict), 2: ("entry", dict)}.get(len(place), ("field", str | list))
        if not isinstance(value, kind):
            context.abort(grpc.StatusCode.UNKNOWN, f"Invalid {name} {value}")
        return value

    def _at(self, tree: Any, place: list[str]) -> Any:
        for name in place:
            tree = tree.get(name) if isinstance(tree, dict) else None
        return tree

    def _put(self, tree: Json, place: list[str], value: Any, context: grpc.ServicerContext) -> None:
        if len(place) == 2:
            tree.setdefault(place[0], {})
        above = self._at(tree, place[:-1])
        if above is None:  # a JSON pointer into nothing
            context.abort(grpc.StatusCode.UNKNOWN, f"Error: member {place[-2]!r} not found in the document")
        above[place[-1]] = value

    def _delete(self, tree: Json, place: list[str]) -> None:
        above = self._at(tree, place[:-1])
        if above is not None:
            above.pop(place[-1], None)

    def _tables(self) -> list[str]:
        return sorted({key.partition("|")[0] for key in self.server.db(CONFIG).keys("*|*")})

    def _read(self, number: int, table: str, key: str = "") -> Json:
        """As its Get and ConfigDBConnector have it: `name@` is the list `name`."""

        def row(whole: str) -> Json:
            found = self.server.db(number).hgetall(whole)
            fields = {f: v for f, v in found.items() if f != "NULL"}
            return {f.removesuffix("@"): v.split(",") if f.endswith("@") else v for f, v in fields.items()}

        if key:
            return row(f"{table}|{key}")
        return {whole.partition("|")[2]: row(whole) for whole in self.server.db(number).keys(f"{table}|*")}


def _texts(row: Json) -> dict[str, str]:
    """A row of ConfigDBConnector as redis has it: its typed_to_raw."""
    lists = {f"{field}@": ",".join(value) for field, value in row.items() if isinstance(value, list)}
    found = {field: str(value) for field, value in row.items() if not isinstance(value, list)} | lists
    return found or {"NULL": "NULL"}


@contextmanager
def serving(servicer: SonicGnmi, pki: Path) -> Iterator[int]:
    """Its port, with mutual TLS."""
    server = grpc.server(ThreadPoolExecutor(8))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(servicer, server)
    key, certificate, ca = ((pki / name).read_bytes() for name in ("switch.key", "switch.pem", "ca.pem"))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)], ca, True))
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()
