"""What the orchestrator remembers: devices, tokens, models, revisions, rollouts, who did what.

Flows are in ingest.recordings. What is found comes back as frozen values. Revisions are only ever inserted.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from ..errors import ConflictError, MissingError, StoreError
from . import generations, off, tables
from .database import Database
from .off import SwitchedOff
from .rollouts import KINDS, write_rollout
from .upsert import upsert

log = logging.getLogger(__name__)

Json = dict[str, Any]
Found = TypeVar("Found")

ANSWERS_KEPT_S = 24 * 3600
OF_A_HOST = "last delivery of "
"""Keys of hosts' last deliveries begin so: a host may have been away for longer than a day."""


@dataclass(frozen=True)
class Switch:
    """A registered switch; `server_name` is its certificate's name where that isn't the address."""

    name: str
    address: str
    role: str = "leaf"
    server_name: str | None = None
    applied_generation: int = 0

    @property
    def endpoint(self) -> tuple[str, int]:
        """Host and port of `address`, "host:port" or "[v6]:port"."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True)
class Host:
    """A registered host, the policy that it last reported (0: none), and when (s since 1970)."""

    name: str
    policy_generation: int
    seen_at: float | None


@dataclass(frozen=True)
class KnownToken:
    """Whose a token is, what it may, and until when (s since 1970; None: for good). The token itself nobody has."""

    name: str
    role: str
    created_at: float
    expires_at: float | None


@dataclass(frozen=True)
class Model:
    """A model, and how well it bounds the flows that it was not shown."""

    generation: int
    label: str
    report: Json
    created_at: float


@dataclass(frozen=True)
class ModelFiles:
    """A model as ONNX, and as hosts read it."""

    onnx: bytes
    forest: bytes


@dataclass(frozen=True)
class StoredRevision:
    """A revision as it was made (plan.revision)."""

    id: int
    created_at: float
    created_by: str
    document: Json


@dataclass(frozen=True)
class StoredRollout:
    """Where a rollout of a revision has got to (fabric.rollout), but for its devices."""

    id: int
    revision: int
    phase: str
    created_at: float
    created_by: str
    document: Json

    @property
    def generation(self) -> int:
        """That it brings; older versions kept none, and it was the id."""
        return int(self.document.get("generation") or self.id)


@dataclass(frozen=True)
class Note:
    """A line of the audit log."""

    id: int
    at: float
    actor: str
    action: str
    subject: str


@dataclass(frozen=True)
class Taken:
    """A delivery with an Idempotency-Key; `asked` digests what was delivered, None where an older version took it."""

    key: str
    asked: str | None
    answer: Json


class Store(Database):
    """What is remembered, but for flows.

    off         hosts are switched off, None: they follow the policy in force
    off_unkept  why the database does not have that yet, None: it does
    """

    def __init__(self, url: str) -> None:
        """As Database does."""
        self._heard_s: dict[str, float] = {}
        self.off: SwitchedOff | None = None
        self.off_unkept: str | None = None
        super().__init__(url)
        self.off = SwitchedOff.from_json(self.setting(off.SETTING))

    # settings

    def setting(self, key: str) -> Any:
        """The value under `key`, None when there is none."""
        with self.reading() as connection:
            return connection.scalar(select(tables.settings.c.value).where(tables.settings.c.key == key))

    def set_setting(self, key: str, value: Any, *, cached: bool = True) -> None:
        """Keeps `value` (JSON) under `key`; `cached`: rest.host_cache has it."""
        with self.writing(cached=cached) as connection:
            row = upsert(connection, tables.settings).values(key=key, value=value)
            connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))

    # the emergency exit

    def switch_off(self, actor: str, *, renew: bool = False) -> SwitchedOff:
        """Switches hosts off, in memory, without waiting for anything; `keep_off` follows.

        `renew`: by another generation where they are off already, which no rollout that runs takes back.
        """
        found = self.off
        if found is None or renew:
            found = SwitchedOff(generations.new_off(), time.time(), actor)
            self.off_unkept = "it is about to be written"
            self.off = found
            log.warning("hosts event=switched-off by=%s", actor)
        return found

    def keep_off(self) -> None:
        """Has the database know what `switch_off` did, unless it does; `off_unkept` says why it can't."""
        if self.off_unkept is None:
            return
        try:
            with self.writing():
                found = self.off
                if found is not None:
                    self.set_setting(off.SETTING, found.to_json())
                    self.note(found.by, "switch-off", "hosts")
        except StoreError as error:
            if self.off_unkept != str(error):
                log.error("hosts event=switched-off-unstored reason=%r; trying again", str(error))
            self.off_unkept = str(error)
            return
        if self.off is found:
            self.off_unkept = None

    def switch_on(self, actor: str) -> None:
        """Hosts follow the policy in force again. ConflictError where they do; StoreError: they stay off."""
        with self.writing():
            if self.off is None:
                raise ConflictError("hosts are not switched off, expected them to be")
            self.set_setting(off.SETTING, None)
            self.note(actor, "switch-on", "hosts")
        self.off = self.off_unkept = None
        log.warning("hosts event=switched-on by=%s", actor)

    @property
    def due_generation(self) -> int:
        """Of the policy that hosts are to follow now, 0: there is none."""
        if self.off is not None:
            return self.off.generation
        return int((self.setting("policy") or {}).get("generation", 0))

    # devices

    def put_switch(self, name: str, address: str, role: str, server_name: str | None) -> bool:
        """Registers a switch, or changes it; True when it is new."""
        return self._put(tables.switches, name, {"address": address, "role": role, "server_name": server_name})

    def put_host(self, name: str) -> bool:
        """Registers a host; True when it is new."""
        return self._put(tables.hosts, name, {})

    def _put(self, table: Any, name: str, values: Mapping[str, Any]) -> bool:
        with self.writing() as connection:
            if connection.scalar(select(table.c.name).where(table.c.name == name)) is None:
                connection.execute(insert(table).values(name=name, **values))
                return True
            if values:
                connection.execute(update(table).where(table.c.name == name).values(**values))
            return False

    def remove_device(self, kind: str, name: str) -> None:
        """Forgets the switch or host (`kind` is "switches" or "hosts")."""
        table = {"switches": tables.switches, "hosts": tables.hosts}[kind]
        with self.writing() as connection:
            if connection.execute(delete(table).where(table.c.name == name)).rowcount == 0:
                raise MissingError(f"{kind}: no {name!r} is registered")

    def switches(self) -> dict[str, Switch]:
        """All switches by name."""
        return {each.name: each for each in self._all(Switch, tables.switches, tables.switches.c.name)}

    def hosts(self) -> dict[str, Host]:
        """All hosts by name."""
        return {each.name: each for each in self._all(Host, tables.hosts, tables.hosts.c.name)}

    def switch_applied(self, name: str, generation: int) -> None:
        """Notes the generation that a switch confirmed."""
        with self.writing() as connection:
            of_it = tables.switches.c.name == name
            connection.execute(update(tables.switches).where(of_it).values(applied_generation=generation))

    def hosts_seen(self, connection: Connection, generations: Mapping[str, int], at: float) -> None:
        """Notes a sign of life of hosts, and the policy generation that each follows; one that is gone stays gone."""
        if generations:
            self._heard_s |= dict.fromkeys(generations, time.monotonic())
            of_it = tables.hosts.c.name == bindparam("of_host")
            change = update(tables.hosts).where(of_it).values(policy_generation=bindparam("follows"), seen_at=at)
            connection.execute(
                change, [{"of_host": host, "follows": generation} for host, generation in generations.items()]
            )

    def silent_s(self, host: Host) -> float | None:
        """Since a host's last sign of life, None: it gave none. By the wall clock where an earlier process heard it."""
        if host.seen_at is None:
            return None
        heard_s = self._heard_s.get(host.name)
        return max(time.time() - host.seen_at, 0.0) if heard_s is None else time.monotonic() - heard_s

    # tokens

    def add_token(self, name: str, role: str, digest: str, expires_at: float | None = None) -> None:
        """Keeps a token's digest; the token itself is never stored."""
        values = {"name": name, "role": role, "digest": digest, "created_at": time.time(), "expires_at": expires_at}
        with self.writing() as connection:
            connection.execute(insert(tables.tokens).values(**values, revoked=False))

    def token(self, digest: str) -> KnownToken | None:
        """The token with this digest, unless revoked; it may have expired."""
        columns = tables.tokens.c
        query = _columns(KnownToken, tables.tokens).where(columns.digest == digest, columns.revoked.is_(False))
        with self.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else KnownToken(**row._mapping)

    def tokens(self, now: float) -> list[KnownToken]:
        """All that are neither revoked nor expired at `now` (s since 1970), the latest last."""
        columns = tables.tokens.c
        query = _columns(KnownToken, tables.tokens).where(columns.revoked.is_(False)).order_by(columns.id)
        query = query.where(columns.expires_at.is_(None) | (columns.expires_at > now))
        with self.reading() as connection:
            return [KnownToken(**row._mapping) for row in connection.execute(query)]

    def revoke_tokens(self, name: str, role: str | None = None) -> int:
        """Revokes all tokens of this name (`role`: of that one alone); returns how many."""
        columns = tables.tokens.c
        change = update(tables.tokens).where(columns.name == name, columns.revoked.is_(False))
        if role is not None:
            change = change.where(columns.role == role)
        with self.writing() as connection:
            return int(connection.execute(change.values(revoked=True)).rowcount)

    def revoke_token(self, digest: str) -> None:
        """Revokes the one token of this digest."""
        change = update(tables.tokens).where(tables.tokens.c.digest == digest)
        with self.writing() as connection:
            connection.execute(change.values(revoked=True))

    # models, revisions, rollouts

    def reserve_model(self) -> int:
        """The next model's generation: nobody else's, even if no model comes of it."""
        with self._writing:
            with self.reading() as connection:
                made = connection.scalar(select(func.max(tables.models.c.generation))) or 0
            number = max(generations.number_of(int(made)), self.setting("last_model") or 0) + 1
            self.set_setting("last_model", number)
        return generations.new(number)

    def add_model(self, generation: int, label: str, report: Json, onnx: bytes, forest: bytes) -> None:
        """Keeps a checked model."""
        values = {"generation": generation, "label": label, "report": report, "onnx": onnx, "forest": forest}
        with self.writing() as connection:
            connection.execute(insert(tables.models).values(created_at=time.time(), **values))

    def model(self, generation: int) -> Model:
        """A model; MissingError when there is none."""
        return self._one(Model, tables.models, tables.models.c.generation, generation)

    def model_files(self, generation: int) -> ModelFiles:
        """Its files; MissingError when there is none."""
        return self._one(ModelFiles, tables.models, tables.models.c.generation, generation)

    def models(self) -> list[Model]:
        """All models, the latest last."""
        return self._all(Model, tables.models, tables.models.c.generation)

    def add_revision(self, actor: str, document: Json) -> int:
        """Keeps a revision for good; returns its id."""
        with self.writing() as connection:
            values = {"created_at": time.time(), "created_by": actor, "document": document}
            return _key(connection.execute(insert(tables.revisions).values(values)))

    def revision(self, number: int) -> StoredRevision:
        """A revision; MissingError when there is none."""
        return self._one(StoredRevision, tables.revisions, tables.revisions.c.id, number)

    def revisions(self) -> list[StoredRevision]:
        """All revisions, the latest last."""
        return self._all(StoredRevision, tables.revisions, tables.revisions.c.id)

    def add_rollout(self, revision: int, actor: str, document: Json) -> int:
        """Keeps a new rollout in phase running; returns its id."""
        with self.writing() as connection:
            values = {"revision": revision, "phase": "running", "created_by": actor, "document": {}}
            number = _key(connection.execute(insert(tables.rollouts).values(created_at=time.time(), **values)))
            write_rollout(connection, number, "running", document)
            return number

    def save_rollout(self, number: int, phase: str, document: Json) -> None:
        """Keeps where a rollout has got to; of its switches and hosts those that `document` has are written."""
        with self.writing(cached=False) as connection:
            write_rollout(connection, number, phase, document)

    def activate(self, policy: Json, number: int, phase: str, document: Json, *, lifts_off: int | None = None) -> None:
        """Puts a policy in force, and keeps that its rollout has got there: both or neither.

        `lifts_off`: hosts that are switched off by that generation, and no later one, are on again with it.
        """
        with self.writing():
            is_lifted = self.off is not None and self.off.generation == lifts_off
            if is_lifted:
                self.set_setting(off.SETTING, None)
            self.set_setting("policy", policy)
            self.save_rollout(number, phase, document)
        if is_lifted:
            self.off = self.off_unkept = None
            log.warning("hosts event=switched-on rollout=%d", number)

    def rollout(self, number: int) -> StoredRollout:
        """A rollout; MissingError when there is none."""
        return self._one(StoredRollout, tables.rollouts, tables.rollouts.c.id, number)

    def last_rollout(self) -> StoredRollout | None:
        """The latest rollout alone."""
        return next(iter(self._all(StoredRollout, tables.rollouts, tables.rollouts.c.id.desc(), 1)), None)

    def rollouts(self) -> list[StoredRollout]:
        """All rollouts, the latest last."""
        return self._all(StoredRollout, tables.rollouts, tables.rollouts.c.id)

    def steps(self, number: int) -> dict[str, dict[str, Json]]:
        """A rollout's devices by kind ("switches", "hosts") and name."""
        columns = tables.steps.c
        query = select(columns.kind, columns.name, columns.step).where(columns.rollout == number)
        found: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
        with self.reading() as connection:
            for row in connection.execute(query.order_by(columns.name)):
                found[row.kind][row.name] = row.step
        return found

    def failing_switches(self, number: int, most: int) -> dict[str, str]:
        """What went wrong in a rollout at switches that it left out or that did not keep it, of `most` of them."""
        columns = tables.steps.c
        query = select(columns.name, columns.step).where(columns.rollout == number, columns.kind == KINDS[0])
        query = query.where(columns.phase.in_(("absent", "failed", "unsure", "restoring", "stranded")))
        with self.reading() as connection:
            rows = connection.execute(query.order_by(columns.name).limit(most))
            return {row.name: str(row.step["error"]) for row in rows if row.step["error"]}

    def counted_steps(self, first: int, last: int) -> dict[int, dict[str, dict[str, int]]]:
        """For each rollout from `first` to `last` and each kind, how many devices are in which phase."""
        columns = tables.steps.c
        by = (columns.rollout, columns.kind, columns.phase)
        found: dict[int, dict[str, dict[str, int]]] = {}
        with self.reading() as connection:
            query = select(*by, func.count().label("devices")).where(columns.rollout.between(first, last))
            for row in connection.execute(query.group_by(*by)):
                of_it = found.setdefault(row.rollout, {kind: {} for kind in KINDS})
                of_it[row.kind][row.phase] = row.devices
        return found

    def _one(self, kind: type[Found], table: Any, column: Any, number: int) -> Found:
        with self.reading() as connection:
            row = connection.execute(_columns(kind, table).where(column == number)).first()
        if row is None:
            raise MissingError(f"{table.name}: there is no {number}")
        return kind(**row._mapping)

    def _all(self, kind: type[Found], table: Any, order: Any, last: int | None = None) -> list[Found]:
        with self.reading() as connection:
            query = _columns(kind, table).order_by(order).limit(last)
            return [kind(**row._mapping) for row in connection.execute(query)]

    # answers and audit

    def answer(self, key: str) -> tuple[str, Any] | None:
        """What was asked with this key (rest.idempotency.fingerprint), and what was answered."""
        found = self._answer(key)
        return None if found is None else (str(found["asked"]), found["answer"])

    def _answer(self, key: str) -> Any:
        columns = tables.answers.c
        with self.reading() as connection:
            return connection.scalar(select(columns.body).where(columns.key == key))

    def keep_answer(self, key: str, asked: str, answer: Json) -> Json:
        """Keeps an answer for a day; one under the same key stays, as do hosts' last deliveries. Returns it."""
        now = time.time()
        values = {"created_at": now, "status": 200, "body": {"asked": asked, "answer": answer}}
        with self.writing(cached=False) as connection:
            columns = tables.answers.c
            old = (columns.created_at < now - ANSWERS_KEPT_S) & ~columns.key.startswith(OF_A_HOST, autoescape=True)
            connection.execute(delete(tables.answers).where(old))
            row = upsert(connection, tables.answers).values(key=key, **values)
            connection.execute(row.on_conflict_do_nothing())
        return answer

    def delivery(self, host: str) -> Taken | None:
        """A host's last delivery that had a key."""
        found = self._answer(_place_of(host))
        return None if found is None else Taken(str(found["key"]), found.get("asked"), found["answer"])

    def keep_deliveries(self, connection: Connection, taken: Mapping[str, Taken]) -> None:
        """Keeps hosts' last deliveries."""
        if taken:
            row = upsert(connection, tables.answers)
            told = {name: row.excluded[name] for name in ("created_at", "status", "body")}
            connection.execute(
                row.on_conflict_do_update(index_elements=["key"], set_=told),
                [
                    {"key": _place_of(host), "created_at": time.time(), "status": 202, "body": asdict(last)}
                    for host, last in taken.items()
                ],
            )

    def note(self, actor: str, action: str, subject: str) -> None:
        """Adds a line to the audit log."""
        with self.writing(cached=False) as connection:
            values = {"at": time.time(), "actor": actor, "action": action, "subject": subject}
            connection.execute(insert(tables.audit).values(values))

    def notes(self, last: int) -> list[Note]:
        """The last lines of the audit log, the latest first."""
        return self._all(Note, tables.audit, tables.audit.c.id.desc(), last)


def _place_of(host: str) -> str:
    return f"{OF_A_HOST}{host}"


def _columns(kind: Any, table: Any) -> Any:
    """The columns of a table that a value has a field for."""
    return select(*(table.c[field.name] for field in fields(kind)))


def _key(result: Any) -> int:
    return int(result.inserted_primary_key[0])
