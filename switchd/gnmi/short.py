"""Gets that are answered on the gNMI loop itself: what takes longer to bring to a thread and back than to answer.

A few exact paths to leaves, or to containers without lists, of a moment that stands ready and without counters: the
schema bounds what they cost, whatever the switch has and the client asks for. All others go to a thread (`loop`).
"""

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.model import MODULE, Model, counts
from switchd.gnmi.paths import NAME_WILDCARDS, resolve
from switchd.gnmi.schema import Node

BYTES_MOST = 1024
"""of the message: parsing it is short, too"""
PATHS_MOST = 4


def is_short(model: Model, request: pb.GetRequest) -> bool:
    """Whether a Get is one of these. Raises RpcError for paths that nothing is at."""
    if request.type != pb.GetRequest.ALL or not 1 <= len(request.path) <= PATHS_MOST:
        return False
    if any(elem.name in NAME_WILDCARDS for path in (request.prefix, *request.path) for elem in path.elem):
        return False
    for path in request.path:
        (place,) = resolve(model.root, MODULE, request.prefix, path)
        if not place.is_exact or counts(place) or has_list(place.node):
            return False
    return True


def has_list(node: Node) -> bool:
    """Whether a node is a list or has one below it: then the data decide how large an answer gets."""
    return any(one.kind == "list" for one in node.walk())
