"""Learns where the messages of each service tell their own size, from what libraries propose and from records.

Here and not in the process: a program that sends one message and ends, as curl does, never sees enough of them, and
what a process has learned would go with it. Pure: values in, values out; the time is handed in.

A service goes through these: candidates are counted, of its proposals; the best is on trial, told in records and no
bound; it is in force; it is dropped where it announces more than comes, and barred for a while.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from qclimb.lengthfile import Proposal, text_of
from qclimb.lengths import EPHEMERAL_PORT, Announced, LengthRule, Score, Service, Use
from qclimb.record import BY_HTTP, BY_NOBODY, BY_RULE, BY_TRIAL, CUT, PARTLY_UNOBSERVED
from qclimb.record_rows import Rows

PROPOSED_FLOWS, PROPOSED_SIZES = 5, 5
"""A rule goes on trial once it would have foretold so many flows, of so many sizes."""
CANDIDATES_MOST = 512
"""Of one service; the rarest give way."""
SERVICES_MOST = 256
"""That are learned or known; the one with the fewest flows gives way."""
BARRED_S = 600.0

_KEY = np.dtype([("comm", "S16"), ("role", "u1"), ("port", "<u2")])


@dataclass
class Candidates:
    """What flows of one service have proposed: how many flows, and which sizes (PROPOSED_SIZES of them at most)."""

    flows: dict[LengthRule, int] = field(default_factory=dict)
    sizes: dict[LengthRule, set[int]] = field(default_factory=dict)

    def add(self, proposal: Proposal, barred: Iterable[LengthRule]) -> None:
        """One more flow."""
        for rule in set(proposal.candidates).difference(barred):
            self.flows[rule] = self.flows.get(rule, 0) + 1
            sizes = self.sizes.setdefault(rule, set())
            if len(sizes) < PROPOSED_SIZES:
                sizes.add(proposal.size_bytes)
        if len(self.flows) > CANDIDATES_MOST:
            kept = sorted(self.flows, key=lambda rule: -self.flows[rule])[: CANDIDATES_MOST // 2]
            self.flows = {rule: self.flows[rule] for rule in kept}
            self.sizes = {rule: self.sizes[rule] for rule in kept}

    @property
    def best(self) -> LengthRule | None:
        """Of those proposed often enough the most frequent; of several, the widest number."""
        able = [
            rule
            for rule, flows in self.flows.items()
            if flows >= PROPOSED_FLOWS and len(self.sizes[rule]) >= PROPOSED_SIZES
        ]
        return max(able, key=lambda rule: (self.flows[rule], rule.width, -rule.offset), default=None)


class Learner:
    """All services of a host.

    known      what libraries are told, by service; `changes` counts its changes, scores apart
    """

    def __init__(self, known: Mapping[Service, Announced] | None = None) -> None:
        self._own = dict(known or {})
        self._given: dict[Service, Announced] = {}
        self._candidates: dict[Service, Candidates] = {}
        self._barred: dict[tuple[Service, LengthRule | None], float] = {}
        self._untold: dict[Service, tuple[LengthRule | None, Score]] = {}
        self.changes = 0

    @property
    def known(self) -> dict[Service, Announced]:
        """What an operator pinned, else what this host found, else what others did."""
        found = {service: each for service, each in self._given.items() if (service, each.rule) not in self._barred}
        found |= {
            service: each
            for service, each in self._own.items()
            if service not in found or not (found[service].pinned or each.use is Use.TRIAL)
        }
        barred = [service for (service, rule) in self._barred if rule is None and service not in found]
        return found | {service: Announced(service, None, Use.FORBIDDEN) for service in barred}

    def propose(self, proposal: Proposal) -> None:
        """A flow whose size nothing had announced."""
        service = proposal.service
        if service in self.known:
            return
        if service not in self._candidates and len(self._candidates) >= SERVICES_MOST:
            self._candidates.pop(next(iter(self._candidates)))
        candidates = self._candidates.setdefault(service, Candidates())
        candidates.add(proposal, [rule for where, rule in self._barred if where == service and rule is not None])
        if (best := candidates.best) is not None:
            del self._candidates[service]
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
        keys["port"] = np.where(ports >= EPHEMERAL_PORT, 0, ports)
        outcome = np.sign(rows["announced_bytes"].astype(np.int64) - rows["size_bytes"].astype(np.int64))
        services, which = np.unique(keys, return_inverse=True)
        for number, key in enumerate(services):
            comm = text_of(bytes(key["comm"]))
            if not comm:
                continue
            service = Service(comm, int(key["role"]), int(key["port"]))
            for by in (BY_HTTP, BY_RULE, BY_TRIAL):
                found = outcome[(which == number) & (rows["announced_by"] == by)]
                if len(found):
                    score = Score(int((found == 0).sum()), int((found < 0).sum()), int((found > 0).sum()))
                    self._score(service, by, score, now_s)

    def follow(self, given: Mapping[Service, Announced]) -> None:
        """What the fabric's other hosts found, and what an operator says."""
        if self._given != given:
            before = self.known
            self._given = dict(given)
            self.changes += before != self.known

    def tick(self, now_s: float) -> None:
        """Lets off what was barred long enough."""
        over = [key for key, since_s in self._barred.items() if now_s - since_s > BARRED_S]
        for key in over:
            del self._barred[key]
        self.changes += bool(over)

    def take_untold(self) -> list[Announced]:
        """What was seen since the last call, each with the score since then: for the orchestrator to add up."""
        untold, self._untold = self._untold, {}
        own = self._own
        return [
            replace(own[service], rule=rule, score=score, is_exact=False)
            for service, (rule, score) in untold.items()
            if service in own and own[service].use is Use.IN_FORCE and own[service].rule == rule
        ]

    def _score(self, service: Service, by: int, score: Score, now_s: float) -> None:
        known = self.known.get(service)
        if known is None and by == BY_HTTP:
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
        self._untold[service] = (known.rule, told)
        self._put(replace(known, use=use, score=total, is_exact=is_exact))

    def _put(self, each: Announced) -> None:
        before = self.known.get(each.service)
        if each.service not in self._own and len(self._own) >= SERVICES_MOST:
            self._own.pop(min(self._own.values(), key=lambda old: old.score.flows).service)
        self._own[each.service] = each
        self.changes += before is None or before.scored(each.score) != each

    def _bar(self, service: Service, rule: LengthRule | None, now_s: float) -> None:
        self._own.pop(service, None)
        self._barred[(service, rule)] = now_s
        self.changes += 1
