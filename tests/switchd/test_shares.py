"""Shares of a port's buffer over rows as platforms write them: ranges are written over and given back exactly."""

import random
from dataclasses import replace

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd import asic
from switchd.apply import Switch
from switchd.plan import PREVIOUS
from switchd.plan import plan as whole_plan
from switchd.ports import numbers_in
from switchd.previous import is_own
from switchd.rows import Delete, Merge, Rows, applied
from tests.switchd.platforms import plan
from tests.switchd.test_histories import AZURE
from tests.switchd.world import Killed, World
from tests.tiers import quick_first

LAYOUT = {
    "Ethernet0": ("0-2", "3-4", "5-6", "7"),
    "Ethernet4": tuple("01234567"),
    "Ethernet8": ("0-7",),
    "Ethernet12": ("0-2", "5-7"),
}
"""as platforms' templates have them; queues 3 and 4 are lossless where they are told apart"""
LOSSY = {"pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "3"}
LOSSLESS = {"pool": "egress_lossless_pool", "size": "0", "static_th": "12000000"}
BEFORE: Rows = {
    "PORT": {port: {"speed": "25000"} for port in LAYOUT},
    "DSCP_TO_TC_MAP": {"AZURE": AZURE},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
    "PORT_QOS_MAP": {port: {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"} for port in LAYOUT},
    "BUFFER_POOL": {
        "egress_lossy_pool": {"type": "egress", "mode": "dynamic", "size": "30000000"},
        "egress_lossless_pool": {"type": "egress", "mode": "static", "size": "12000000"},
    },
    "BUFFER_PROFILE": {"lossy": LOSSY, "lossless": LOSSLESS},
    "BUFFER_QUEUE": {
        f"{port}|{span}": {"profile": "lossless" if set(numbers_in(span) or ()) <= {3, 4} else "lossy"}
        for port, spans in LAYOUT.items()
        for span in spans
    },
}
BUFFERS = ("BUFFER_QUEUE", "BUFFER_PROFILE", PREVIOUS)


def sharing(shares: dict[int, int | None], generation: int = 1) -> SwitchIntent:
    """An intent of these queues, the highest served first."""
    queues = sorted(shares, reverse=True)
    classes = tuple(QueueClass(p, 47 - 4 * p, queue, dynamic_th=shares[queue]) for p, queue in enumerate(queues))
    return SwitchIntent(generation, "enabled", classes)


def held(rows: Rows, port: str, queue: int) -> str:
    """dynamic_th of a queue: its own row's, else its range's."""
    entries = rows["BUFFER_QUEUE"]
    covering = [key for key in entries if key.startswith(f"{port}|") and queue in (numbers_in(key.split("|")[1]) or ())]
    key = min(covering, key=lambda key: len(numbers_in(key.split("|")[1]) or ()))
    return rows["BUFFER_PROFILE"][entries[key]["profile"]].get("dynamic_th", "static")


def test_a_range_is_written_over_and_stands_again_as_it_was() -> None:
    shares = {7: 0, 5: 1, 2: 1, 1: 2, 0: None}
    planned = whole_plan(sharing(shares), BEFORE)
    after = applied(BEFORE, planned.changes)
    assert planned.unshared == {}
    for port, layout in LAYOUT.items():
        for queue, share in shares.items():
            if any(queue in (numbers_in(span) or ()) for span in layout):
                assert held(after, port, queue) == str(3 if share is None else share), (port, queue)
    over = {key for key in after["BUFFER_QUEUE"] if key not in BEFORE["BUFFER_QUEUE"]}
    assert {key for key in over if key.startswith("Ethernet0|")} == {"Ethernet0|1", "Ethernet0|2", "Ethernet0|6"}
    assert is_own(after["BUFFER_QUEUE"]["Ethernet0|0-2"]["profile"]), "only a row that changes gives back"
    assert after["BUFFER_QUEUE"]["Ethernet0|3-4"] == {"profile": "lossless"}
    assert plan(sharing(shares), after) == ()
    assert applied(after, plan(None, after)) == BEFORE


def test_what_was_written_over_a_range_goes_though_nobody_remembers_it() -> None:
    after = applied(BEFORE, plan(sharing({7: 0, 2: 1, 1: 1, 0: None}), BEFORE))
    forgotten = {table: entries for table, entries in after.items() if table != PREVIOUS}
    assert applied(forgotten, plan(None, forgotten)) == BEFORE


def test_a_range_that_moves_takes_along_what_was_written_over_it() -> None:
    on = applied(BEFORE, plan(sharing({2: 1, 1: 1, 0: 0}), BEFORE))
    again = applied(on, plan(sharing({2: 1, 1: 1, 0: 2}), on))
    moved = {key for key in on["BUFFER_QUEUE"] if on["BUFFER_QUEUE"][key] != again["BUFFER_QUEUE"][key]}
    assert {"Ethernet0|0-2", "Ethernet0|1", "Ethernet0|2"} <= moved
    assert held(again, "Ethernet0", 1) == held(on, "Ethernet0", 1) == "1"


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"Ethernet0,Ethernet4|0-7": "lossy"}, "covers other ports, too"),
        ({"Ethernet0|0-7": "lossy", "Ethernet0|5-7": "lossy"}, "overlap"),
        ({"Ethernet0|0-7": "lossy", "Ethernet0|7": "lossy"}, "overlap"),
        ({"Ethernet0|0-7": "lossless"}, "profile 'lossless' of BUFFER_QUEUE|Ethernet0|0-7 has no dynamic_th"),
        ({"Ethernet0|0-15": "lossy"}, "covers queue 15, expected 0 to 9"),
        ({"Ethernet0|0-7": "poolless"}, "profile 'poolless' of BUFFER_QUEUE|Ethernet0|0-7 has no pool"),
        ({"Ethernet0|0-7": "sizeless"}, "has no size: orchagent would refuse a copy"),
    ],
)
def test_rows_that_can_not_be_written_over_keep_the_platforms_share(entries: dict[str, str], reason: str) -> None:
    odd = {f"{field}less": {key: LOSSY[key] for key in LOSSY if key != field} for field in ("pool", "size")}
    rows = {**BEFORE, "BUFFER_QUEUE": {key: {"profile": name} for key, name in entries.items()}}
    rows["BUFFER_PROFILE"] = {**BEFORE["BUFFER_PROFILE"], **odd}
    planned = whole_plan(replace(sharing({7: 0, 5: 1, 0: None}), ports=("Ethernet0",)), rows)
    assert reason in planned.unshared["Ethernet0"]
    assert not any(change.table in ("BUFFER_QUEUE", "BUFFER_PROFILE") for change in planned.changes)


class Story:
    """A switch under changing intents, kills, restarts and a platform that writes its own rows again."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance, self.now_s = random.Random(seed), 1000.0
        monkeypatch.setattr(asic, "time", type("Clock", (), {"monotonic": lambda _: self.now_s})())
        self.world, self.generation = World(BEFORE, self.chance), 0
        self.shares: dict[int, int | None] = {}
        self.switch = Switch(self.world)

    def shares_in_asic(self, port: str) -> list[int | None]:
        told = self.world.in_asic(port).get("queues", {})
        return [(told.get(str(queue), {}).get("buffer") or {}).get("dynamic_th") for queue in range(8)]

    def intend(self) -> None:
        self.generation += 1
        queues = self.chance.sample((0, 1, 2, 5, 7), self.chance.randint(1, 5))
        self.shares = {queue: self.chance.choice((None, None, -2, 0, 1, 3)) for queue in queues}
        self._edit(sharing(self.shares, self.generation))

    def disable(self) -> None:
        self.shares = {}
        self._edit(None)

    def _edit(self, intent: SwitchIntent | None) -> None:
        try:
            self.switch.edit(lambda _: intent)
        except Killed:
            self.world.writes_left = 10**9
            self.switch = Switch(self.world)
            self._edit(intent)

    def kill(self) -> None:
        self.world.writes_left = self.chance.choice((0, 1, 2))

    def restart(self) -> None:
        self.world.restart()

    def rewrite(self) -> None:
        """The platform's rows anew, as `config reload` or a template writes them."""
        port = self.chance.choice(list(LAYOUT))
        rows = {key: row for key, row in BEFORE["BUFFER_QUEUE"].items() if key.startswith(f"{port}|")}
        self.world.change(*(Merge("BUFFER_QUEUE", key, row) for key, row in rows.items()))

    def take_ours(self) -> None:
        ours = [key for key, row in self.world.rows["BUFFER_QUEUE"].items() if is_own(row["profile"])]
        if singles := [key for key in ours if key not in BEFORE["BUFFER_QUEUE"]]:
            self.world.change(Delete("BUFFER_QUEUE", self.chance.choice(singles)))

    def settle(self) -> None:
        self.world.writes_left = 10**9
        for _ in range(30):
            self.now_s += 5.0
            self.switch.follow()
            self.switch.look()


@pytest.mark.parametrize("seed", quick_first([277, 313, 415, 417, 488, *range(60)], 15))
def test_after_any_history_each_queue_has_its_share_and_giving_back_is_exact(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(seed, monkeypatch)
    platform = {port: story.shares_in_asic(port) for port in LAYOUT}
    write = story.world.write

    def watched(*what: object, **more: object) -> None:
        before = {port: story.shares_in_asic(port) for port in LAYOUT}
        write(*what, **more)  # type: ignore[arg-type]
        for port, had in before.items():
            has = story.shares_in_asic(port)
            assert all(now is not None for was, now in zip(had, has, strict=True) if was is not None), (port, what[0])

    monkeypatch.setattr(story.world, "write", watched)
    actions = [story.intend] * 4 + [story.disable, story.kill, story.restart, story.rewrite, story.take_ours]
    for _ in range(story.chance.randint(2, 8)):
        story.chance.choice(actions)()
        if story.chance.random() < 0.6:
            story.settle()
    story.settle()
    for port, layout in LAYOUT.items():
        buffered = frozenset().union(*(numbers_in(span) or () for span in layout))
        wanted = [
            platform[port][queue] if story.shares.get(queue) is None else story.shares[queue] for queue in range(8)
        ]
        now = story.shares_in_asic(port)
        assert [now[queue] for queue in buffered] == [wanted[queue] for queue in buffered], (port, story.shares)
    story.disable()
    story.settle()
    assert {port: story.shares_in_asic(port) for port in LAYOUT} == platform
    assert {table: story.world.rows.get(table, {}) for table in BUFFERS} == {t: BEFORE.get(t, {}) for t in BUFFERS}
