"""SONiC's modules of the two maps as stand-ins in our own words, and sonic-qclimb.yang beside them, as on a switch."""

from collections.abc import Mapping
from functools import cache
from json import dumps

import libyang
from qclimb.schema import SONIC_MODULE, yang_directory

from switchd.rows import Row

MAPS = {
    "DSCP_TO_TC_MAP": ("sonic-dscp-tc-map", "dscp", "tc"),
    "TC_TO_QUEUE_MAP": ("sonic-tc-queue-map", "tc", "qindex"),
}
"""table -> module, and what the leaves of its inner list are called there"""
STAND_IN = """module {0} {{ yang-version 1.1; namespace "urn:stand-in:{0}"; prefix m;
container {0} {{ container {1} {{ list {1}_LIST {{ key name; leaf name {{ type string; }}
list {1} {{ key {2}; leaf {2} {{ type string; }} leaf {3} {{ type string; }} }} }} }} }} }}"""


@cache
def _context() -> libyang.Context:
    context = libyang.Context()
    for table, (module, field, value) in MAPS.items():
        context.parse_module_str(STAND_IN.format(module, table, field, value))
    context.parse_module_str((yang_directory() / f"{SONIC_MODULE}.yang").read_text())
    return context


def refusal(rows: Mapping[str, Mapping[str, Row]]) -> str:
    """What YANG says of the maps among the rows of CONFIG_DB; empty: nothing."""
    tree = {
        f"{module}:{module}": {
            table: {
                f"{table}_LIST": [
                    {"name": name, table: [{field: one, value: to} for one, to in row.items() if one != "NULL"]}
                    for name, row in rows[table].items()
                ]
            }
        }
        for table, (module, field, value) in MAPS.items()
        if table in rows
    }
    try:
        data = _context().parse_data_mem(dumps(tree), "json", strict=True, no_state=True)
    except libyang.LibyangError as error:
        return str(error)
    if data is not None:
        data.free()
    return ""
