"""Which characters names of the contract may hold, what is printed of the others, and how little a refusal costs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.checks import SHOWN_CHARACTERS, only_known, shown
from qclimb.errors import LengthError, QclimbError, RecordError
from qclimb.leaves import Ports
from qclimb.lengthfile import decode_lengths, encode_lengths
from qclimb.lengths import Announced, Service, Use, by_service
from qclimb.record import FlowRecord
from qclimb.text import UNPRINTABLE, check_printable, printable, program_name, replace_unprintable

BAD = {
    "lone surrogate": "\ud800",
    "NUL": "\0",
    "ESC": "\x1b",
    "newline": "\n",
    "DEL": "\x7f",
    "CSI of C1": "\x9b",
    "right to left override": "\u202e",
    "isolate": "\u2066",
    "left to right mark": "\u200e",
    "Arabic letter mark": "\u061c",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "zero-width space": "\u200b",
    "byte order mark": "\ufeff",
    "tag": "\U000e0041",
}
each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())


@each_bad
def test_no_name_of_the_contract_holds_what_can_not_be_printed(bad: str) -> None:
    made = [
        (RecordError, "comm", lambda: FlowRecord(start_ns=1, last_write_ns=1, size_bytes=1, comm=f"a{bad}b")),
        (LengthError, "program", lambda: Service(f"a{bad}b", 1, 80)),
        (QclimbError, "place", lambda: check_printable(f"a{bad}b", "place", QclimbError)),
    ]
    for error, field, make in made:
        with pytest.raises(error, match=f"^{field} is") as refusal:
            make()
        assert str(refusal.value).isprintable()


@each_bad
def test_what_is_printed_is_one_line_that_says_which_character_it_was(bad: str) -> None:
    escape = bad.encode("unicode_escape").decode()
    assert escape.isascii() and printable(f"a{bad}b") == f"a{escape}b"
    assert replace_unprintable(f"a{bad}b") == "a?b"


@given(st.text())
def test_printed_text_is_a_name_in_utf_8(text: str) -> None:
    check_printable(printable(text), "text", QclimbError)
    printable(text).encode()
    if not UNPRINTABLE.search(text):
        assert printable(text) == text


@pytest.mark.parametrize("name", ["nginx", "café", "Ωmega", "日本語", "שרת", "python3.11", "a b", "🚀", "\\x1b"])
def test_names_of_every_script_are_names(name: str) -> None:
    assert check_printable(name, "name", QclimbError) == name
    assert Service(name[:15], 0, 80).program == name


@given(st.binary(max_size=20))
def test_a_process_may_be_called_anything_and_its_name_is_a_name(comm: bytes) -> None:
    name = program_name(comm)
    FlowRecord(start_ns=1, last_write_ns=1, size_bytes=1, comm=name)
    if name:
        entry = Announced(Service(name, 1, 80), None, Use.IN_FORCE)
        assert decode_lengths(encode_lengths([entry])) == [entry]


def test_what_an_earlier_version_kept_is_read_with_a_name_that_can_be_printed() -> None:
    kept = [
        {**Announced(Service("a", 1, 80), None, Use.IN_FORCE).to_json(), "program": f"a{bad}"} for bad in BAD.values()
    ]
    assert {each.program for each in by_service(kept, Announced.from_kept)} == {"a?"}
    for wrong in ([{"program": 7}], [7], [{}]):
        with pytest.raises(LengthError):
            by_service(wrong, Announced.from_kept)


class Compared(str):
    """Counts how often it is compared."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return str.__eq__(self, other)


def test_the_work_of_a_list_of_ports_grows_as_the_list() -> None:
    ports = tuple(Compared(f"Ethernet{number}") for number in range(2_000))
    Compared.count = 0
    assert Ports().checked(ports, "ports") == ports
    assert Compared.count <= 10 * len(ports)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * (1 << 20), id="long text"),
        pytest.param([[0] * 1000] * 1000, id="long lists"),
        pytest.param({str(number): number for number in range(100_000)}, id="many keys"),
        pytest.param(json.loads("[" * 500 + "]" * 500), id="deep"),
    ],
)
def test_a_message_shows_little_of_a_value_and_reads_little_of_it(value: Any) -> None:
    assert len(shown(value)) <= SHOWN_CHARACTERS
    with pytest.raises(QclimbError) as refusal:
        only_known({str(value)[:100_000]: value}, ["generation"], "policy", QclimbError)
    assert len(str(refusal.value)) < 300
