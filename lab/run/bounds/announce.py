"""How hostd's kernel mode hears of a flow's size: from the first bytes of its message, by a rule that an operator pins.

Programs without the library can be told nothing; the replay's applications write what there is to say into their
header (lab/workload/app/message.h), as most protocols do.
"""

from __future__ import annotations

from collections.abc import Sequence

from qclimb.errors import LengthError
from qclimb.lengthfile import decode_lengths
from qclimb.lengths import Announced, LengthRule, Service, Use

from lab.control.operator import Control
from lab.fabric import Fabric
from lab.fabric.daemons import wait_for
from lab.workload.programs import TRAFFIC
from lab.workload.services import Endpoint

DATA = 2
RULE = LengthRule(offset=0, width=4, is_big_endian=False, tag_offset=4, tag=DATA)
"""announced_bytes of a DATA message."""


def senders_of(endpoints: Sequence[Endpoint]) -> frozenset[Service]:
    """Who sends the flows of these services: of those that answer the side that accepts, else the one that connects."""
    return frozenset(Service(TRAFFIC.name, int(each.how == "pull"), each.port) for each in endpoints)


def pin(control: Control, fabric: Fabric, endpoints: Sequence[Endpoint]) -> None:
    """Has all hosts take what senders announce for their flows' sizes, exactly. Returns when each host knows.

    Raises: FabricError.
    """
    wanted = senders_of(endpoints)
    for service in wanted:
        control.pin_length(Announced(service, RULE, Use.IN_FORCE, is_exact=True))
    files = [fabric.run_directory(host) / "lengths" for host in fabric.hosts]

    def are_known() -> bool:
        try:
            return all(wanted <= {each.service for each in decode_lengths(file.read_bytes())} for file in files)
        except (OSError, LengthError):
            return False

    wait_for("hosts know what senders announce", are_known, [])
