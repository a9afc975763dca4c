"""Who may be patching CONFIG_DB: told from redis' list of its clients; purely.

SONiC's patcher connects before it reads what it patches, and stays connected until it has compared (sonic-utilities
691b1bbc4: `PatchApplier` makes its `ChangeApplier` first). That connection looks once whether CONFIG_DB is whole, with
GET, and then writes. Nobody names it, and redis tells no process. Those who read rows, or listen, are told from it by
their last command.
"""

from collections.abc import Iterator, Mapping

from switchd.db import CONFIG

OURS = "qclimb"
"""the name of each connection of ours"""
PATCH_S = 300.0
"""how long a patch may sort its moves before it writes the first"""
LAST_COMMANDS = ("get", "hset", "hmset", "hdel", "del")


def patchers(client_list: str, most_s: float) -> list[str]:
    """The ids of clients that may be patching CONFIG_DB, the oldest first, of those that came less than `most_s` s ago.

    client_list  what CLIENT LIST answers
    """
    found = [
        one["id"]
        for one in _clients(client_list)
        if one.get("db") == str(CONFIG)
        and one.get("name") != OURS
        and one.get("cmd", "").lower() in LAST_COMMANDS
        and one.get("sub", "0") == one.get("psub", "0") == "0"
        and float(one.get("age", "0")) < most_s
    ]
    return sorted(found, key=int)


def _clients(client_list: str) -> Iterator[Mapping[str, str]]:
    for line in client_list.splitlines():
        if line:
            yield {name: text for name, _, text in (word.partition("=") for word in line.split(" "))}
