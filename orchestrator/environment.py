"""What libraries would take from the environment unasked: dropped at the start of each process that serves.

docs/design/environment.md has each library's defaults, and why this is so.
"""

import re
from collections.abc import MutableMapping

DROPPED = re.compile(
    r"PG(?!PASSWORD$|PASSFILE$)[A-Z]+"  # libpq: another server, address, service or TLS mode than the URL has
    r"|PSYCOPG_\w+|FASTAPI_\w+|PROMETHEUS_\w+|OTEL_\w+|ORT_\w+"
    r"|GRPC_(?!VERBOSITY$|TRACE$)\w+|SSL_CERT_(FILE|DIR)|SSLKEYLOGFILE"
    r"|(?i:(http|https|all|no|grpc|no_grpc)_proxy)"
    r"|FORWARDED_ALLOW_IPS|WEB_CONCURRENCY|UVICORN_\w+"
)


def drop_library_settings(environment: MutableMapping[str, str]) -> list[str]:
    """Removes from `environment` what a library would read there; the names of what was removed."""
    dropped = sorted(name for name in environment if DROPPED.fullmatch(name))
    for name in dropped:
        del environment[name]
    return dropped
