"""`show qclimb` and `sonic-clear qclimb` off a switch: `python -m switchd.show --redis URL status`."""

import sys
from typing import Any

import click
import redis

from switchd.show import clear_qclimb, qclimb, qclimb_counters, qclimb_queues


class PlainDb:
    """What `show`'s Db gives us, from a redis without SONiC around it: it is its own SonicV2Connector."""

    COUNTERS_DB, CONFIG_DB, STATE_DB = 2, 4, 6

    def __init__(self, url: str) -> None:
        def connect(number: int) -> Any:
            return redis.Redis.from_url(url, db=number, decode_responses=True, encoding_errors="backslashreplace")

        self._connect = connect
        self.db_clients = {"": self}

    def keys(self, number: int, pattern: str) -> list[str]:
        """SonicV2Connector.keys."""
        return list(self._connect(number).keys(pattern))

    def get_all(self, number: int, key: str) -> dict[str, str]:
        """SonicV2Connector.get_all."""
        return dict(self._connect(number).hgetall(key))


@click.group(
    context_settings=qclimb.help_names, epilog="Example: python -m switchd.show --redis unix:///tmp/redis.sock status"
)
@click.option("--redis", "url", required=True, metavar="URL", help="unix:///PATH or redis://ADDR:PORT.")
@click.pass_context
def plain(context: click.Context, url: str) -> None:
    """`show qclimb` off a switch, from a plain redis."""
    context.obj = PlainDb(url)


for _name, _command in {**qclimb.qclimb.commands, "clear": clear_qclimb.counters}.items():
    plain.add_command(_command, _name)
qclimb_counters.register(plain)
qclimb_queues.register(plain)


def main() -> None:
    """The commands off a switch; a redis that can't be reached is one sentence and status 2."""
    try:
        plain(prog_name="python -m switchd.show")
    except (redis.RedisError, ValueError) as error:
        click.echo(qclimb.printable(f"Error: redis: {error}"), err=True)
        sys.exit(2)
