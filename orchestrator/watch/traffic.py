"""What switches carried by priority, from what they had counted at two looks. Pure."""

from dataclasses import dataclass, replace

from ..fabric.door import ClassCount, Told


@dataclass(frozen=True)
class Rates:
    """Of one priority at one switch, over all its granted ports; None where its platform does not count that."""

    bytes_per_s: float | None
    packets_per_s: float | None
    dropped_per_s: float | None
    dropped_packets: int | None
    """Since the platform began to count."""


@dataclass(frozen=True)
class Looks:
    """The last look at a switch that it answered, the one before, and why the newest failed.

    at         when, s since 1970, for people
    clock_s    the same by a clock that nobody sets
    seconds    from the look before to the last one; None where there are not two
    """

    at: float | None = None
    clock_s: float | None = None
    told: Told | None = None
    seconds: float | None = None
    before: Told | None = None
    error: str | None = None

    def and_then(self, at: float, clock_s: float, told: Told) -> "Looks":
        """It answered."""
        seconds = None if self.clock_s is None or clock_s <= self.clock_s else clock_s - self.clock_s
        return Looks(at, clock_s, told, seconds, self.told)

    def missed(self, error: str) -> "Looks":
        """It did not; what it last told stays."""
        return replace(self, error=error)

    def rates(self) -> dict[int, Rates]:
        """By priority; empty until there are two looks."""
        if self.told is None or self.before is None or self.seconds is None:
            return {}
        before = self.before.classes
        return {
            priority: _rates(now, before[priority], self.seconds)
            for priority, now in sorted(self.told.classes.items())
            if priority in before
        }


def _rates(now: ClassCount, before: ClassCount, seconds: float) -> Rates:
    def rate(new: int | None, old: int | None) -> float | None:
        if new is None or old is None or new < old:  # a switch that was restarted counts from 0 again
            return None
        return (new - old) / seconds

    return Rates(
        rate(now.bytes, before.bytes),
        rate(now.packets, before.packets),
        rate(now.dropped_packets, before.dropped_packets),
        now.dropped_packets,
    )
