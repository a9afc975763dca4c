"""Extensions newer than pygnmi's stubs: what is written is read again, through the stubs that carry it unread."""

import pytest
from pygnmi.spec.v080 import gnmi_ext_pb2
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.gnmi_ext import Commit, Election, ExtensionError, Extensions, UnknownExtension, read, written

ONES = [
    Extensions(commit=Commit("a", "commit")),
    Extensions(commit=Commit("a", "commit", 12.5)),
    Extensions(commit=Commit("b" * 256, "confirm")),
    Extensions(commit=Commit("ü", "cancel")),
    Extensions(commit=Commit("a", "set_rollback_duration", 3.0)),
    Extensions(election=Election("", 2**128 - 1)),
    Extensions(election=Election("orchestrator", 0)),
]


@pytest.mark.parametrize("one", ONES, ids=str)
def test_an_extension_is_read_as_it_was_written_through_a_request_of_the_stubs(one: Extensions) -> None:
    (content,) = (each for each in (one.commit, one.election) if each)
    request = pb.SetRequest(extension=[gnmi_ext_pb2.Extension.FromString(written(content))])
    again = pb.SetRequest.FromString(request.SerializeToString())
    assert read(each.SerializeToString() for each in again.extension) == one


def test_the_stubs_read_an_election_as_we_write_it() -> None:
    told = gnmi_ext_pb2.Extension.FromString(written(Election("r", 2**64 + 3))).master_arbitration
    assert (told.role.id, told.election_id.high, told.election_id.low) == ("r", 1, 3)


BAD: dict[str, tuple[list[bytes], str]] = {
    "nothing in it": ([b""], "has no content"),
    "two contents": ([b"\x22\x00\x2a\x00"], "commit and depth, expected one content"),
    "no bytes of a message": ([b"\xff"], "its 1 bytes can't be parsed"),
    "no id": ([b"\x22\x02\x1a\x00"], "the id has 0 characters"),
    "no action": ([b"\x22\x03\x0a\x01a"], "commit 'a': 0 actions"),
    "two actions": ([b"\x22\x07\x0a\x01a\x1a\x00\x22\x00"], "commit 'a': 2 actions"),
    "a duration of nothing": ([b"\x22\x05\x0a\x01a\x2a\x00"], "without a rollback_duration"),
    "a duration of 0": ([b"\x22\x07\x0a\x01a\x2a\x02\x0a\x00"], "rollback_duration is 0 s"),
    "twice": ([b"\x22\x05\x0a\x01a\x1a\x00"] * 2, "commit is there twice"),
    "an election without an id": ([b"\x12\x00"], "without an election_id"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_extension_that_can_not_be_read_is_refused_by_name(case: str) -> None:
    serialized, text = BAD[case]
    with pytest.raises(ExtensionError, match=text):
        read(serialized)


@pytest.mark.parametrize(("number", "name"), [(1, "registered_ext"), (3, "history"), (9, "number 9")])
def test_what_is_not_supported_is_named(number: int, name: str) -> None:
    with pytest.raises(UnknownExtension, match=f"extension {name} is not supported"):
        read([bytes([number << 3 | 2, 0])])
