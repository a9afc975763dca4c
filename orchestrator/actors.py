"""Who acts where no token does: the orchestrator's own parts, by the names that lists and the audit log have."""

from enum import StrEnum


class Actor(StrEnum):
    """No token and no new host may have one of these names, in whatever case."""

    HEALTH = "health"
    """Undoes a rollout after which small flows are slower."""
    DRIFT = "drift"
    """Offers and rolls out models, and switches bounds off."""
    SPINES = "spines"
    """Leaves spines out that are down."""
    SWITCHES = "switches"
    """Repairs switches that hold another intent."""


def is_reserved(name: str) -> bool:
    """Whether that is the name of one of the orchestrator's own parts."""
    return name.lower() in set(Actor)
