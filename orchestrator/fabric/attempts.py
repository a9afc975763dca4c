"""What is asked of switches one by one: whatever goes wrong at one is that one's error, and no other waits for it."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from qclimb.errors import QclimbError

from ..errors import FleetError
from ..store.store import Switch

Found = TypeVar("Found")

AT_ONCE = 16


def attempt(switch: Switch, ask: Callable[[Switch], Found]) -> Found | FleetError:
    """What `ask` returns, or what it raises, as an error that names the switch: a malformed answer raises anything."""
    try:
        return ask(switch)
    except FleetError as error:
        return error
    except Exception as error:
        return FleetError(reason_of(switch, error), changed=False)


def attempt_each(
    switches: Mapping[str, Switch], ask: Callable[[Switch], Found], at_once: int = AT_ONCE
) -> dict[str, Found | FleetError]:
    """`attempt` at each, by name, so many at once."""
    if not switches:
        return {}
    with ThreadPoolExecutor(min(at_once, len(switches)), thread_name_prefix="ask") as pool:
        found = pool.map(lambda switch: attempt(switch, ask), switches.values())
        return dict(zip(switches, found, strict=True))


def reason_of(switch: Switch, error: Exception) -> str:
    """Why it failed, as a sentence that names the switch."""
    return str(error) if isinstance(error, QclimbError) else f"switch {switch.name}: {error!r}"
