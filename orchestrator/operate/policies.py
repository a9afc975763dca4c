"""Policies by the names that people know: `revision 3`, `off`; generations are for programs."""

from collections.abc import Callable

from .rest import Json, Rest


def policy_names(rest: Rest, overview: Json | None = None) -> Callable[[int | None], str | None]:
    """What the policy of a generation is called; None for 0, which is none.

    Of rollouts of one revision the newest has its name alone.
    """
    off = (rest.ask("GET", "overview") if overview is None else overview)["off"]
    names: dict[int, str] = {}
    newest: dict[int, int] = {}
    rollouts = rest.ask("GET", "rollouts")
    for each in rollouts:
        newest[each["revision"]] = each["id"]
    for each in rollouts:
        is_newest = newest[each["revision"]] == each["id"]
        names[each["generation"]] = f"revision {each['revision']}" + ("" if is_newest else f" by rollout {each['id']}")
    if off is not None:
        names[off["generation"]] = "off"

    def name(generation: int | None) -> str | None:
        return names.get(generation, f"unknown ({generation})") if generation else None

    return name
