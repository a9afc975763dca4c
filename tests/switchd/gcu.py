"""SONiC's generic config updater as far as another writer meets it (sonic-utilities 691b1bbc4, generic_config_updater).

`config apply-patch`: connect, read all rows, make the target, sort the moves, write one row after another with a sleep
after each, read all again and compare. A map it takes away field by field first, while ports still refer to it (seen
2026-11-28), unless YANG refuses the first of these moves: its end is refused while it is referred to.
`config rollback`: the same with the difference to a checkpoint, and compares once more.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from qclimb.errors import IntentError
from qclimb.schema import validate_config_db

from switchd.rows import Change, Delete, Drop, Merge, Row, Rows, applied
from tests.switchd.whole_maps import MAPS, refusal

IGNORED = ("BUFFER_PG", "BUFFER_PROFILE", "FLEX_COUNTER_TABLE")
"""tables that it does not compare: `backend_tables`"""
ORDER = ("PORT", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "SCHEDULER", "WRED_PROFILE", "BUFFER_PROFILE")
"""tables whose rows others refer to: created first, deleted last"""
DOWN_FIRST = (
    "PORT_QOS_MAP",
    "QUEUE",
    "BUFFER_QUEUE",
    "BUFFER_PG",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
)
"""tables whose rows change only while their port is down: RequiredValueIdentifier of patch_sorter.py"""
CONNECTIONS = (
    *["db=4 age=0 cmd=get"] * 2,
    *[f"db={number} age=0 cmd=config|set" for number in (6, 7, 8, 3, 5, 2, 5, 4, 1, 14, 0)],
    "db=4 age=0 cmd=get",
)
"""of the process, as redis 7 lists them: `config` itself, to each database, the patcher's own (2026-11-25)"""
SLEEP_S, READ_S = 1.0, 1.0
"""after each row; to read CONFIG_DB"""


class NotUpdated(Exception):
    """`after applying patch to config, there are still some parts not updated`"""


class NotValid(Exception):
    """`Given patch will produce invalid config`, or a move that would: all of CONFIG_DB is checked, by YANG."""


class Gcu:
    """read, write   CONFIG_DB
    passes          seconds go by; everybody else does what he does
    clients         lines of CLIENT LIST by id: its connections are among them while it works
    taken_down      ports that were up, and that a patch took down and up again
    """

    def __init__(
        self,
        read: Callable[[], Rows],
        write: Callable[[Change], None],
        passes: Callable[[float], None],
        clients: dict[int, str],
    ) -> None:
        self._read, self._write, self.passes, self._clients = read, write, passes, clients
        self.taken_down: set[str] = set()

    def checkpoint(self) -> Rows:
        return applied(self._read(), ())

    @contextmanager
    def _connected(self) -> Iterator[None]:
        first = max(self._clients, default=40) + 1
        told = {first + n: line for n, line in enumerate(CONNECTIONS)}
        self._clients |= {
            number: f"id={number} addr=/run/redis.sock:0 name= sub=0 psub=0 {told[number]}" for number in told
        }
        try:
            yield
        finally:
            for number in told:
                del self._clients[number]

    def apply(self, patch: Mapping[tuple[str, str], Row | None], sorting_s: float = 0.0) -> None:
        """Rows by table and key as they are to be; None: none."""
        with self._connected():
            self._apply(patch, sorting_s)

    def _apply(self, patch: Mapping[tuple[str, str], Row | None], sorting_s: float = 0.0) -> None:
        target = self.checkpoint()
        self.passes(READ_S + sorting_s)
        for (table, key), row in patch.items():
            target = applied(target, [Delete(table, key)])
            if row is not None:
                target = applied(target, [Merge(table, key, row)])
        try:
            validate_config_db(target)
        except IntentError as error:
            raise NotValid(str(error)) from error
        if said := refusal(target):
            raise NotValid(said)
        moves = sorted(patch.items(), key=lambda move: self._rank(move[0][0], move[1]))
        ports = target.get("PORT", {})
        down = {key.split("|")[0] for table, key in patch if table in DOWN_FIRST}
        down = {port for port in down if ports.get(port, {}).get("admin_status") == "up"}
        self.taken_down |= down
        down_moves = [(("PORT", port), {**ports[port], "admin_status": "down"}) for port in sorted(down)]
        up_moves = [(("PORT", port), ports[port]) for port in sorted(down)]
        for table, key in (name for name, row in moves if row is None and name[0] in MAPS):
            fields = [Drop(table, key, (field,)) for field in self._read()[table][key]]
            if not refusal(applied(self._read(), fields[:1])):
                for one in fields:
                    self._write(one)
                    self.passes(SLEEP_S)
        for (table, key), row in (*down_moves, *moves, *up_moves):
            self._set_entry(table, key, row)
            self.passes(SLEEP_S)
        self._compare(target)

    def rollback(self, checkpoint: Rows) -> None:
        with self._connected():
            self._rollback(checkpoint)

    def _rollback(self, checkpoint: Rows) -> None:
        now = self._read()
        keys = {(table, key) for rows in (now, checkpoint) for table, entries in rows.items() for key in entries}
        old, new = ({k: rows.get(k[0], {}).get(k[1]) for k in keys} for rows in (now, checkpoint))
        self._apply({key: new[key] for key in sorted(keys) if new[key] != old[key]})
        self._compare(checkpoint)

    def _compare(self, target: Rows) -> None:
        self.passes(READ_S)
        found = self._read()
        for table in sorted({*target, *found} - {*IGNORED}):
            if target.get(table, {}) != found.get(table, {}):
                raise NotUpdated(table)

    def _set_entry(self, table: str, key: str, row: Row | None) -> None:
        """ConfigDBConnector.set_entry: HMSET, then HDEL of what is gone, as two commands."""
        if row is None:
            self._write(Delete(table, key))
            return
        gone = tuple(self._read().get(table, {}).get(key, {}).keys() - row.keys())
        self._write(Merge(table, key, row))
        if gone:
            self._write(Drop(table, key, gone))

    @staticmethod
    def _rank(table: str, row: Row | None) -> int:
        first = ORDER.index(table) if table in ORDER else len(ORDER)
        return first if row is not None else 2 * len(ORDER) - first
