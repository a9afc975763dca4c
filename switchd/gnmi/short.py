"""Gets that are answered on the gNMI loop itself: what takes longer to bring to a thread and back than to answer.

A few exact paths to leaves, or to containers without lists, of a moment that stands ready and without counters: the
schema bounds what they cost, whatever the switch has and the client asks for. All others go to a thread (`loop`).
"""

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.get import Asked
from switchd.gnmi.paths import NAME_WILDCARDS
from switchd.gnmi.schema import Node

BYTES_MOST = 1024
"""of the message: parsing it is short, too"""
PATHS_MOST = 4


def may_be_short(request: pb.GetRequest) -> bool:
    """Whether a Get may be one of these: then it costs little to find out what it names."""
    return (
        request.type == pb.GetRequest.ALL
        and 1 <= len(request.path) <= PATHS_MOST
        and not any(elem.name in NAME_WILDCARDS for path in (request.prefix, *request.path) for elem in path.elem)
    )


def is_short(asked: Asked) -> bool:
    """Whether a Get is one of these."""
    places = [place for places in asked.named for place in places]
    return not asked.counted and all(place.is_exact and not has_list(place.node) for place in places)


def has_list(node: Node) -> bool:
    """Whether a node is a list or has one below it: then the data decide how large an answer gets."""
    return any(one.kind == "list" for one in node.walk())
