"""Which database a daemon talks to: SONiC's own bindings where they are, redis-py elsewhere."""

from qclimb.errors import QclimbError

from switchd import db_swsscommon
from switchd.db import Database
from switchd.db_redis import RedisDatabase
from switchd.namespaces import redis_of


def open_database(backend: str, redis_url: str, namespace: str = "") -> Database:
    """The backend auto, swsscommon or redis; `namespace`: of several ASICs. Raises QclimbError.

    auto takes swsscommon where it can be imported; its sockets are SONiC's own, `redis_url` is not used then.
    """
    if backend in ("auto", "swsscommon"):
        if db_swsscommon.available():
            return db_swsscommon.SwsscommonDatabase(namespace)
        if backend == "swsscommon":
            raise QclimbError("--backend swsscommon: the Python module swsscommon is not installed here")
    return RedisDatabase(redis_of(namespace) if namespace else redis_url)
