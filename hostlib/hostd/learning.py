"""Learns where the messages of each service tell their own size, from what libraries propose and from records.

Here and not in the process: a program that sends one message and ends, as curl does, never sees enough of them, and
what a process has learned would go with it. Pure: values in, values out; the time is handed in.

A service goes through these: candidates are counted, of its proposals; the best is on trial, told in records and no
bound; it is in force; it is dropped where it announces more than comes, and barred for a while. Then its messages may
be of several types, of which some have a length at that place: the library is asked for what may be the type, and the
same rule with a tag is a candidate of its own.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest

import numpy as np
from qclimb.lengthfile import Proposal
from qclimb.lengths import HOLDS_SHARE, Announced, LengthRule, PortRange, Score, Service, Use
from qclimb.record import ANNOUNCERS, BY_HTTP, BY_NOBODY, BY_RULE, BY_TRIAL, CUT, PARTLY_UNOBSERVED
from qclimb.record_rows import Rows
from qclimb.text import program_name

PROPOSED_FLOWS, PROPOSED_SIZES = 5, 5
"""A rule goes on trial once it would have foretold so many flows, of so many sizes."""
CANDIDATES_MOST = 512
"""Of one service; the rarest give way."""
CANDIDATES_IN_ALL = 16_384
"""Of all services; those of the one that proposed first give way."""
SERVICES_MOST = 256
"""That are learned or known; those with the fewest flows give way."""
EVICTED = 16
"""At once."""
SCORED_MOST = 1_024
"""Services of the rows of one `count`; those with the fewest flows are left out."""
BARRED_MOST, BARRED_RULES_MOST = 256, 16
"""Services, and rules of one: any local user can have a service of any name barred. The first one gives way."""
BARRED_S = 600.0

_KEY = np.dtype([("comm", "S16"), ("role", "u1"), ("port", "<u2")])


@dataclass
class Candidates:
    """What flows of one service have proposed: how many flows, and which sizes (PROPOSED_SIZES of them at most).

    against     flows of a tagged rule's type of which it would have been wrong
    """

    flows: dict[LengthRule, int] = field(default_factory=dict)
    sizes: dict[LengthRule, set[int]] = field(default_factory=dict)
    against: dict[LengthRule, int] = field(default_factory=dict)

    def add(self, proposal: Proposal, barred: Collection[LengthRule]) -> None:
        """One more flow; a rule that is barred counts with each tag that the flow has, outside the number itself."""
        seen = set(proposal.candidates)
        typed = {rule: with_tags(rule, proposal.tags) for rule in barred if rule.tag is None}
        for rule in set[LengthRule]().union(*(rules for rule, rules in typed.items() if rule not in seen)):
            self.against[rule] = self.against.get(rule, 0) + 1
        tagged = set[LengthRule]().union(*(rules for rule, rules in typed.items() if rule in seen))
        for rule in (seen | tagged).difference(barred):
            self.flows[rule] = self.flows.get(rule, 0) + 1
            sizes = self.sizes.setdefault(rule, set())
            if len(sizes) < PROPOSED_SIZES:
                sizes.add(proposal.size_bytes)
        if len(self.flows) > CANDIDATES_MOST:
            kept = sorted(self.flows, key=lambda rule: -self.flows[rule])[: CANDIDATES_MOST // 2]
            self.flows = {rule: self.flows[rule] for rule in kept}
            self.sizes = {rule: self.sizes[rule] for rule in kept}
        if len(self.against) > CANDIDATES_MOST:
            self.against = {rule: self.against[rule] for rule in self.flows if rule in self.against}

    @property
    def best(self) -> LengthRule | None:
        """Of those proposed often enough the most frequent; of several, the widest number, and a type that is not 0."""
        able = [
            rule
            for rule, flows in self.flows.items()
            if flows >= PROPOSED_FLOWS
            and len(self.sizes[rule]) >= PROPOSED_SIZES
            and self.against.get(rule, 0) <= (1 - HOLDS_SHARE) * flows
        ]
        return max(able, key=lambda rule: (self.flows[rule], rule.width, -rule.offset, bool(rule.tag)), default=None)


def with_tags(rule: LengthRule, tags: Iterable[tuple[int, int]]) -> set[LengthRule]:
    """The rule for messages of one type, by each of the tags that is no part of its number."""
    number = range(rule.offset, rule.offset + rule.width)
    return {replace(rule, tag_offset=offset, tag=tag) for offset, tag in tags if offset not in number}


class Learner:
    """All services of a host.

    known      what libraries are told, by service; `changes` counts its changes, scores apart
    ports      those of the kernel's choice, whose services are one a program and role
    """

    def __init__(self, known: Mapping[Service, Announced] | None = None, ports: PortRange | None = None) -> None:
        self._ports = ports or PortRange()
        self._own = dict(known or {})
        self._given: dict[Service, Announced] = {}
        self._candidates: dict[Service, Candidates] = {}
        self._barred: dict[Service, dict[LengthRule | None, float]] = {}
        self._untold: dict[Service, tuple[LengthRule | None, Score]] = {}
        self.changes = 0

    @property
    def known(self) -> dict[Service, Announced]:
        """What an operator pinned, else what this host found, else what others did."""
        services = {**self._given, **self._own, **self._barred}
        found = {service: self._known(service) for service in services}
        return {service: each for service, each in found.items() if each is not None}

    def _known(self, service: Service) -> Announced | None:
        own, given = self._own.get(service), self._given.get(service)
        barred = self._barred.get(service, {})
        if given is not None and given.rule in barred:
            given = None
        if own is not None and (given is None or not (given.pinned or own.use is Use.TRIAL)):
            return own
        if given is None and barred:
            return Announced(service, None, Use.FORBIDDEN if None in barred else Use.TRIAL)
        return given

    def propose(self, proposal: Proposal) -> None:
        """A flow whose size nothing had announced."""
        service = proposal.service
        known = self._known(service)
        if known is not None and not known.asks_for_tags:
            return
        if service not in self._candidates and len(self._candidates) >= SERVICES_MOST:
            self._candidates.pop(next(iter(self._candidates)))
        candidates = self._candidates.setdefault(service, Candidates())
        candidates.add(proposal, [rule for rule in self._barred.get(service, ()) if rule is not None])
        while sum(len(each.flows) for each in self._candidates.values()) > CANDIDATES_IN_ALL:
            self._candidates.pop(next(iter(self._candidates)))
        if (best := candidates.best) is not None:
            self._candidates.pop(service, None)
            self._put(Announced(service, best, Use.TRIAL))

    def count(self, rows: Rows, now_s: float) -> None:
        """Flows of which something was announced."""
        asked = (rows["announced_by"] != BY_NOBODY) & (rows["announced_bytes"] > rows["first_write_bytes"])
        rows = rows[asked & (rows["flags"] & (CUT | PARTLY_UNOBSERVED) == 0)]
        if not len(rows):
            return
        keys = np.zeros(len(rows), dtype=_KEY)
        keys["comm"], keys["role"] = rows["comm"], rows["role"]
        ports = np.where(rows["role"] == 1, rows["local_port"], rows["peer_port"])
        keys["port"] = ports
        outcome = np.sign(rows["announced_bytes"].astype(np.int64) - rows["size_bytes"].astype(np.int64))
        services, which = np.unique(keys, return_inverse=True)
        cells = (which * len(ANNOUNCERS) + rows["announced_by"]) * 3 + outcome + 1
        counted = np.bincount(cells, minlength=len(services) * len(ANNOUNCERS) * 3)
        counted = counted.reshape(len(services), len(ANNOUNCERS), 3)
        flows = counted.sum(axis=(1, 2))
        scored = np.argsort(-flows, kind="stable")[:SCORED_MOST]
        for number in np.sort(scored).tolist():
            key = services[number]
            comm = program_name(bytes(key["comm"]))
            if not comm:
                continue
            for by in (BY_HTTP, BY_RULE, BY_TRIAL):
                short, exact, beyond = counted[number, by].tolist()
                if short + exact + beyond:
                    service = self._service(comm, int(key["role"]), int(key["port"]), by)
                    self._score(service, by, Score(exact, short, beyond), now_s)

    def follow(self, given: Mapping[Service, Announced]) -> None:
        """What the fabric's other hosts found, and what an operator says."""
        if self._given != given:
            before = self.known
            self._given = dict(given)
            self.changes += before != self.known

    def tick(self, now_s: float) -> None:
        """Lets off what was barred long enough."""
        before = len(self._barred), sum(map(len, self._barred.values()))
        left = {
            service: {rule: since_s for rule, since_s in rules.items() if now_s - since_s <= BARRED_S}
            for service, rules in self._barred.items()
        }
        self._barred = {service: rules for service, rules in left.items() if rules}
        self.changes += before != (len(self._barred), sum(map(len, self._barred.values())))

    def take_untold(self) -> list[Announced]:
        """What was seen since the last call, each with the score since then: for the orchestrator to add up."""
        untold, self._untold = self._untold, {}
        own = self._own
        return [
            replace(own[service], rule=rule, score=score, is_exact=False)
            for service, (rule, score) in untold.items()
            if service in own and own[service].use is Use.IN_FORCE and own[service].rule == rule
        ]

    def _service(self, program: str, role: int, port: int, by: int) -> Service:
        """Whose rule libraries used: that of the very port, else of the kernel's choice. A program in another network
        namespace may have another range of those than this host: that there is a rule for them tells."""
        own, chosen = Service(program, role, port), Service(program, role, 0)
        if own in self._own or own in self._given:
            return own
        by_rule = by != BY_HTTP and (chosen in self._own or chosen in self._given)
        return chosen if by_rule or self._ports.service_port(port) == 0 else own

    def _score(self, service: Service, by: int, score: Score, now_s: float) -> None:
        known = self._known(service)
        if by == BY_HTTP and (known is None or known.asks_for_tags):
            known = Announced(service, None, Use.IN_FORCE)
        if known is None or (known.use is Use.TRIAL) != (by == BY_TRIAL) or (known.rule is None) != (by == BY_HTTP):
            return  # of a rule that is no longer there
        own = self._own.get(service)
        has_own = own is not None and own.rule == known.rule
        total = (own.score if own is not None and has_own else Score()).plus(score).aged()
        if total.is_wrong and not known.pinned:
            self._bar(service, known.rule, now_s)
            return
        use = Use.IN_FORCE if known.use is Use.TRIAL and total.is_proven else known.use
        is_exact = total.is_exact or (known.is_exact and total.exact >= 0.999 * total.flows)
        rule_untold, score_untold = self._untold.get(service, (known.rule, Score()))
        told = score_untold.plus(score) if rule_untold == known.rule else score
        if service not in self._untold and len(self._untold) >= SERVICES_MOST:
            self._untold.pop(next(iter(self._untold)))
        self._untold[service] = (known.rule, told)
        self._put(replace(known, use=use, score=total, is_exact=is_exact))

    def _put(self, each: Announced) -> None:
        before = self._known(each.service)
        if each.service not in self._own and len(self._own) >= SERVICES_MOST:
            for old in nsmallest(EVICTED, self._own.values(), key=lambda old: old.score.flows):
                del self._own[old.service]
        self._own[each.service] = each
        self.changes += before is None or before.scored(each.score) != each

    def _bar(self, service: Service, rule: LengthRule | None, now_s: float) -> None:
        self._own.pop(service, None)
        if service not in self._barred and len(self._barred) >= BARRED_MOST:
            del self._barred[next(iter(self._barred))]
        rules = self._barred.setdefault(service, {})
        if rule not in rules and len(rules) >= BARRED_RULES_MOST:
            del rules[next(iter(rules))]
        rules[rule] = now_s
        self.changes += 1
