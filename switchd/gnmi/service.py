"""The RPCs without a wire: bytes of a request in, bytes of its answer out, for all doors of a daemon.

All of this waits for redis or computes for long, so it runs in threads (`loop`). Messages are parsed here, after the
caller is known: grpcio keeps 16 KB of each that it can't parse.
"""

import logging
import time
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.errors import NewerRows
from qclimb.intent import SwitchIntent

from switchd.apply import Switch
from switchd.board import Snapshot
from switchd.commits import CommitError
from switchd.counters import rule_totals, totals
from switchd.db import DatabaseLost, RowsChanged
from switchd.elections import NotMaster, TooManyRoles
from switchd.gnmi import get, set, subscribe
from switchd.gnmi.access import Client, client_of, known
from switchd.gnmi.errors import RpcError, invalid
from switchd.gnmi.extensions import check_fields, extensions_of
from switchd.gnmi.limits import Call, check_size
from switchd.gnmi.model import Model
from switchd.gnmi.moment import Moment
from switchd.gnmi.path_state import rules_in
from switchd.gnmi.set import Wanted
from switchd.gnmi.short import BYTES_MOST, is_short, may_be_short
from switchd.gnmi.values import ENCODINGS
from switchd.plan import Refused

log = logging.getLogger("switchd.gnmi")

GNMI_VERSION = "0.10.0"
"""by its SetRequest, which has union_replace"""
BEGIN_S = 5.0
"""how long a Get or Subscribe waits for a daemon that is reading CONFIG_DB for the first time"""
Request = TypeVar("Request", bound=Message)
Names = Sequence[bytes] | None
"""common names of the caller's certificate; None: it came over plain loopback"""


class Service:
    """What is answered. Threads share it; every method raises RpcError, or what `errors.status_of` knows."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.model = Model()

    @property
    def first_read(self) -> Snapshot:
        """The last committed moment, waiting for the first one. Raises DatabaseLost where there is none: what was not
        read is not an empty intent."""
        self.switch.board.begun.wait(BEGIN_S)
        found = self.switch.snapshot
        if not found.is_read:
            raise DatabaseLost(found.status.last_error or "switchd has just begun, and has not read CONFIG_DB yet")
        return found

    def client(self, names: Names) -> Client:
        """Who is calling."""
        return client_of(names, self.switch.host)

    def capabilities(self, message: bytes, _call: Call) -> bytes:
        """What is served."""
        request = parsed(pb.CapabilityRequest, message)
        extensions_of(request)
        check_fields(request)
        schema = self.model.schema
        model = pb.ModelData(name=schema.module, organization=schema.organization, version=schema.version)
        return serialized(
            pb.CapabilityResponse(supported_models=[model], supported_encodings=ENCODINGS, gNMI_version=GNMI_VERSION)
        )

    def get(self, message: bytes, call: Call) -> bytes:
        """Configuration and state of the last committed moment."""
        asked = get.checked(self.model, parsed(pb.GetRequest, message))
        return serialized(get.answer(self.model, asked, self.moment(asked.counted).tree, call.check))

    def get_at_once(self, message: bytes, call: Call) -> bytes | None:
        """The same where it costs less than the way to a thread; None where it may cost more."""
        moment = self.model.ready(self.switch.snapshot)
        if moment is None or len(message) > BYTES_MOST:
            return None
        request = parsed(pb.GetRequest, message)
        if not may_be_short(request) or not is_short(asked := get.checked(self.model, request)):
            return None
        return serialized(get.answer(self.model, asked, moment.tree, call.check))

    def wanted(self, message: bytes) -> Wanted:
        """What a Set asks for, if it may be asked for at all."""
        check_size(message)
        return set.checked(parsed(pb.SetRequest, message))

    def set(self, client: Client, wanted: Wanted, call: Call, peer: str) -> bytes:
        """Answers when the rows are written and applied, or with nothing changed.

        Its client may have lost the right to write while it waited.
        """
        try:
            with self.switch.writing(wanted.extensions.election):
                if not client.is_plain:
                    known(client.name, self.switch.host).check_write()
                self._set(client, wanted, call, peer)
        except (RpcError, Refused, NewerRows, RowsChanged, CommitError, NotMaster, TooManyRoles) as error:
            log.warning("set refused client=%s error=%r", client.name, str(error))
            raise
        prefix = wanted.request.prefix
        return serialized(pb.SetResponse(prefix=prefix, response=wanted.results, timestamp=time.time_ns()))

    def _set(self, client: Client, wanted: Wanted, call: Call, peer: str) -> None:
        """Carry it out while nobody else writes."""
        commit = wanted.extensions.commit
        if commit is not None and commit.action != "commit":
            call.check()
            self.switch.settle(commit)
            return
        if not wanted.results and commit is None:
            if wanted.extensions.election is None:  # by gnmi-commit-confirmed.md 3.2.1 not even that while one waits
                self.switch.check_none_pending()
            return

        def changed(before: SwitchIntent | None) -> SwitchIntent | None:
            tree = self.model.config(before)
            set.change(self.model, wanted, tree, call.check)
            intent = self.model.intent(tree)
            call.check()
            return intent

        intent = self.switch.edit(changed, commit, client.at(peer), lambda: set.is_whole(self.model, wanted))
        log.info("set client=%s generation=%s", client.name, intent.generation if intent else None)

    def subscription(self, message: bytes) -> subscribe.Subscription:
        """The first message of a Subscribe."""
        return subscribe.checked(self.model, parsed(pb.SubscribeRequest, message))

    def moment(self, counted: bool, snapshot: Snapshot | None = None) -> Moment:
        """Configuration and state now, with the queues' counters if they are asked for. Raises DatabaseLost."""
        snapshot = snapshot or self.first_read
        if not counted or not (snapshot.classes or snapshot.steered.spines):
            return self.model.uncounted(snapshot)
        queues = {int(row["queue"]) for row in snapshot.classes.values()}
        ports = snapshot.intent.ports if snapshot.intent else ()
        redirected = rule_totals(self.switch.db, rules_in(snapshot))
        return Moment(snapshot, self.model.data(snapshot, totals(self.switch.db, queues, ports), redirected))


def check_poll(message: bytes) -> None:
    """Raises RpcError where a message after the first of a POLL is no Poll."""
    if parsed(pb.SubscribeRequest, message).WhichOneof("request") != "poll":
        raise invalid("a POLL subscription expects Poll messages after its first")


def parsed(kind: type[Request], message: bytes) -> Request:
    """A message of this kind. Raises RpcError INVALID_ARGUMENT where the bytes are none."""
    try:
        found: Request = kind.FromString(message)
        return found
    except DecodeError:
        raise invalid(f"the message is no {kind.DESCRIPTOR.name}: its {len(message)} bytes can't be parsed") from None


def serialized(message: Message) -> bytes:
    """Its bytes."""
    return bytes(message.SerializeToString())
