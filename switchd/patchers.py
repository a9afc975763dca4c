"""Who may be patching CONFIG_DB: told from redis' list of its clients; purely.

SONiC's patcher connects before it reads what it patches, and stays connected until it has compared (sonic-utilities
691b1bbc4: `PatchApplier` makes its `ChangeApplier` first). That connection looks once whether CONFIG_DB is whole, with
GET, and then writes. Nobody names it, and redis tells no process. Those who read rows, or listen, are told from it by
their last command.

Whoever patches runs `config`, SONiC's gNMI server, too: it opens a connection to each database as it begins
(utilities_common/db.py), so that a client among such neighbours may be a patch for long. One without them is a service
that began a while ago, or `gcu-standalone`, which sorts for a minute at most before it is taken for a service.
"""

from collections.abc import Iterator, Mapping, Sequence

from switchd.db import CONFIG

OURS = "qclimb"
"""the name of each connection of ours"""
PATCH_S = 600.0
"""how long a patch may sort its moves before it writes the first: for so long SONiC's gNMI server waits for one"""
SERVICE_PART = 0.1
"""of that, how long a client is waited for that does not look like `config`"""
LAST_COMMANDS = ("get", "hset", "hmset", "hdel", "del")
NEAR, NEAR_S, DATABASES = 50, 3.0, 4
"""`config` opens 13 connections one after another; of those to 10 other databases the last command is CONFIG SET"""


def patchers(client_list: str, most_s: float) -> list[str]:
    """The ids of clients that may be patching CONFIG_DB, the oldest first, of those that came less than `most_s` s ago.

    client_list  what CLIENT LIST answers
    """
    clients = [*_clients(client_list)]
    found = [
        one["id"]
        for one in clients
        if one.get("db") == str(CONFIG)
        and one.get("name") != OURS
        and one.get("cmd", "").lower() in LAST_COMMANDS
        and one.get("sub", "0") == one.get("psub", "0") == "0"
        and _age_s(one) < most_s * (1 if _is_of_config(one, clients) else SERVICE_PART)
    ]
    return sorted(found, key=int)


def _is_of_config(one: Mapping[str, str], clients: Sequence[Mapping[str, str]]) -> bool:
    """Whether connections to other databases were opened right after this one, and not used since."""
    others = {
        other.get("db")
        for other in clients
        if 0 < int(other["id"]) - int(one["id"]) <= NEAR
        and abs(_age_s(other) - _age_s(one)) <= NEAR_S
        and other.get("cmd", "").lower().startswith("config")
    }
    return len(others - {str(CONFIG)}) >= DATABASES


def _age_s(one: Mapping[str, str]) -> float:
    return float(one.get("age", "0"))


def _clients(client_list: str) -> Iterator[Mapping[str, str]]:
    for line in client_list.splitlines():
        if line:
            yield {name: text for name, _, text in (word.partition("=") for word in line.split(" "))}
