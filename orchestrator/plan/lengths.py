"""Lengths that services announce, over the whole fabric: what hosts found, added up, and what an operator says. Pure.

A host tells where the number stands and how often it was right, no byte of a message (qclimb.lengths). What one host
says is its own: others get a rule once a second host found the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, TypeVar

from qclimb.lengths import Announced, LengthRule, Score, Service, Use, by_service

Kept = TypeVar("Kept")

SERVICES_MOST = 1_024
RULES_MOST = 4
"""Of a service; what one host alone found gives way first, then the least used."""
TOLD_MOST_FLOWS = 1_000_000
"""A host can't have seen more between two of its words."""
HOSTS_NEEDED = 2


@dataclass(frozen=True)
class Found:
    """One rule of a service: how it did on all hosts, and the first HOSTS_NEEDED that told of it."""

    rule: LengthRule | None
    score: Score = field(default_factory=Score)
    hosts: tuple[str, ...] = ()


def _weight(one: Found) -> tuple[int, int]:
    return len(one.hosts), one.score.exact


def fair_share(each: Iterable[Kept], found: Callable[[Kept], Found], most: int) -> list[Kept]:
    """Which of them are kept where there is room for so many, so that no one host takes it all.

    First what hosts agree on; then, of what one host alone found, each host's heaviest, each one's second, and so on.
    """
    heaviest = sorted(((one, found(one)) for one in each), key=lambda both: _weight(both[1]), reverse=True)
    of_host, turns = Counter[tuple[str, ...]](), list[tuple[int, Kept]]()
    for one, best in heaviest:
        alone = len(best.hosts) < HOSTS_NEEDED
        of_host[best.hosts] += alone
        turns.append((of_host[best.hosts] if alone else 0, one))
    return [one for _, one in sorted(turns, key=itemgetter(0))[:most]]


@dataclass(frozen=True)
class Fabric:
    """What is known, by service."""

    found: Mapping[Service, tuple[Found, ...]] = field(default_factory=dict)
    pinned: Mapping[Service, Announced] = field(default_factory=dict)

    def heard(self, host: str, told: Iterable[Announced]) -> "Fabric":
        """With what a host saw since it last told."""
        found = dict(self.found)
        for each in told:
            if each.use is not Use.IN_FORCE or not 0 < each.score.flows <= TOLD_MOST_FLOWS:
                continue
            rules = {one.rule: one for one in found.get(each.service, ())}
            before = rules.get(each.rule, Found(each.rule))
            hosts = before.hosts if host in before.hosts else (*before.hosts, host)[:HOSTS_NEEDED]
            rules[each.rule] = Found(each.rule, before.score.plus(each.score).aged(), hosts)
            found[each.service] = tuple(fair_share(rules.values(), lambda one: one, RULES_MOST))
        if len(found) > SERVICES_MOST:
            kept = fair_share(found, lambda service: max(found[service], key=_weight), SERVICES_MOST)
            found = {service: found[service] for service in kept}
        return replace(self, found=found)

    def pin(self, each: Announced) -> "Fabric":
        """With an operator's word on a service."""
        return replace(self, pinned={**self.pinned, each.service: replace(each, pinned=True)})

    def unpin(self, service: Service) -> "Fabric":
        """Without: what hosts find counts again, from nothing on."""
        return Fabric(
            {each: rules for each, rules in self.found.items() if each != service},
            {each: word for each, word in self.pinned.items() if each != service},
        )

    @property
    def known(self) -> dict[Service, Announced]:
        """What counts of each service, whoever found it."""
        return self._known(1)

    @property
    def given(self) -> list[Announced]:
        """What hosts are told."""
        return sorted(self._known(HOSTS_NEEDED).values(), key=lambda each: each.service)

    def _known(self, hosts: int) -> dict[Service, Announced]:
        known = {}
        for service, rules in self.found.items():
            good = [one for one in rules if len(one.hosts) >= hosts and not one.score.is_wrong]
            if good:
                best = max(good, key=lambda one: one.score.exact)
                known[service] = Announced(service, best.rule, Use.IN_FORCE, best.score, best.score.is_exact)
        for service, word in self.pinned.items():
            score = next((one.score for one in self.found.get(service, ()) if one.rule == word.rule), Score())
            known[service] = replace(word, score=score, is_exact=word.is_exact or score.is_exact)
        return known

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the store."""
        return {
            "found": [
                {**Announced(service, one.rule, Use.IN_FORCE, one.score).to_json(), "hosts": list(one.hosts)}
                for service, rules in self.found.items()
                for one in rules
            ],
            "pinned": [each.to_json() for each in self.pinned.values()],
        }

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> "Fabric":
        """Of `to_json`; raises LengthError."""
        found: dict[Service, tuple[Found, ...]] = {}
        for one in obj["found"]:
            each = Announced.from_kept({name: value for name, value in one.items() if name != "hosts"})
            rules = found.get(each.service, ())
            found[each.service] = (*rules, Found(each.rule, each.score, tuple(one["hosts"])))
        return cls(found, by_service(obj["pinned"], Announced.from_kept))
