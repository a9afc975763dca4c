"""The learned rules on this host's disk: what libraries read, and beside it what they go on from after a restart.

lengths       for libraries (qclimb.lengthfile), written when a rule comes, goes or changes its use
lengths.json  the same with scores, for hostd
"""

import json
import logging
from pathlib import Path

from qclimb.errors import LengthError
from qclimb.lengthfile import decode_lengths, encode_lengths
from qclimb.lengths import Announced, PortRange, Service, Use, by_service

from hostlib.hostd.learning import Learner
from hostlib.hostd.place import Place, write_whole

log = logging.getLogger("qclimb-hostd")

SCORES_S = 10.0
"""Scores are written at most so often."""


PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def kernels_ports() -> PortRange:
    """Ports of the kernel's choice in this process's network namespace."""
    try:
        return PortRange.of_text(PORT_RANGE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return PortRange()


class Lengths:
    """Keeps the files behind a learner."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.problem = ""
        self.learner = Learner(self._kept(), kernels_ports())
        self._written: dict[Service, Announced] | None = None
        self._changes = -1
        self._scores_at_s = 0.0

    def follow(self, known: dict[Service, Announced], changes: int, now_s: float, *, at_end: bool = False) -> None:
        """Writes what is `known` where it is not what was written last; raises PlaceError."""
        if changes != self._changes:
            self._changes = changes
            content = encode_lengths(known.values())
            decode_lengths(content)  # what libraries will read, read back
            write_whole(self._place.lengths, content)
            log.info("lengths services=%d", len(known))
        elif not self._place.lengths.exists():
            write_whole(self._place.lengths, encode_lengths(known.values()))
        if known != self._written and (at_end or now_s - self._scores_at_s >= SCORES_S):
            listed = [each.to_json() for each in sorted(known.values(), key=lambda each: each.service)]
            write_whole(self._place.lengths_scores, json.dumps(listed, indent=1).encode() + b"\n", durable=at_end)
            self._written, self._scores_at_s = dict(known), now_s

    def _kept(self) -> dict[Service, Announced]:
        """What an earlier hostd learned, where it is whole; nothing stays barred."""
        path = self._place.lengths_scores
        try:
            found = by_service(json.loads(path.read_bytes()), Announced.from_kept)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError, TypeError, LengthError) as error:
            self.problem = f"{path}: {error}; learning anew"
            return {}
        return {
            service: each
            for service, each in found.items()
            if not (each.pinned or each.use is Use.FORBIDDEN or each.asks_for_tags)
        }


def lines(found: list[dict[str, object]]) -> list[str]:
    """For a terminal: a line a service, of `Announced.to_json`."""
    rows: list[tuple[str, ...]] = [("service", "use", "rule", "flows", "exact %", "short %", "beyond %")]
    for each in (Announced.from_json(one) for one in found):
        score = each.score
        shares = [f"{100 * part / score.flows:.1f}" if score.flows else "" for part in vars(score).values()]
        use = each.use.value + (", pinned" if each.pinned else "") + (", exact" if each.is_exact else "")
        rule = "which types?" if each.asks_for_tags else str(each.rule or "HTTP/1.x")
        rows.append((each.service.name, use, rule, str(score.flows), *shares))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
