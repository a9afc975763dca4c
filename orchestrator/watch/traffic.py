"""What switches carried by priority, from what they had counted at two looks. Pure."""

from dataclasses import dataclass

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
    """The last look at a switch (s since 1970) that it answered, the one before, and why the newest failed."""

    at: float | None = None
    told: Told | None = None
    before_at: float | None = None
    before: Told | None = None
    error: str | None = None

    def and_then(self, at: float, told: Told) -> "Looks":
        """It answered."""
        return Looks(at, told, self.at, self.told)

    def missed(self, error: str) -> "Looks":
        """It did not; what it last told stays."""
        return Looks(self.at, self.told, self.before_at, self.before, error)

    @property
    def seconds(self) -> float | None:
        """Between both; None where there are not two, or where a clock jumped back."""
        if self.at is None or self.before_at is None or self.at <= self.before_at:
            return None
        return self.at - self.before_at

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
