"""How fields lie in host files and datagrams: little endian, without padding, alike for Python, numpy and C.

A field's type stands once: at the field of the value that it belongs to (`policy.Policy`, `record.FlowRecord`), or in
`hostfile` where it belongs to the file alone. Ranges, `struct` formats, numpy's rows and the C structs of
hostlib/core/include/qclimb/layout.h come from there.
"""

import dataclasses
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints


@dataclass(frozen=True)
class Kind:
    """What a field is in C.

    c_type   of one element, `width` bytes long
    code     its letter in `struct`
    count    0: a number; else so many in a table
    highest  the largest number that can be
    """

    c_type: str
    code: str
    width: int
    count: int = 0
    highest: int = 0

    def up_to(self, highest: int) -> "Kind":
        """The same, with a range that is narrower than its type's."""
        return dataclasses.replace(self, highest=highest)

    def table(self, count: int) -> "Kind":
        """So many of it."""
        return dataclasses.replace(self, count=count)

    @property
    def is_narrowed(self) -> bool:
        """Whether a value can be of the type and yet impossible."""
        return not self.count and self.highest < 256**self.width - 1

    @property
    def format(self) -> str:
        """As `struct` writes it: a table of bytes is one `bytes`."""
        if self.count:
            return f"{self.count}{'s' if self.width == 1 else self.code}"
        return self.code

    @property
    def numpy(self) -> str:
        """As numpy writes it."""
        if self.c_type == "char":
            return f"S{self.count}"
        return f"({self.count},)<u{self.width}" if self.count else f"<u{self.width}"


U8, U16 = Kind("uint8_t", "B", 1, highest=2**8 - 1), Kind("uint16_t", "H", 2, highest=2**16 - 1)
U32, U64 = Kind("uint32_t", "I", 4, highest=2**32 - 1), Kind("uint64_t", "Q", 8, highest=2**64 - 1)
I16, I32 = Kind("int16_t", "h", 2), Kind("int32_t", "i", 4)
CHAR = Kind("char", "s", 1)


@dataclass(frozen=True)
class Bit:
    """A field that is true or false: its bit in the word `flags`."""

    number: int


@dataclass(frozen=True)
class Field:
    """One field of a file; `about` says what it is, and its unit."""

    kind: Kind
    about: str = ""


def kinds_of(value: type) -> dict[str, Kind]:
    """The kind of each field of a dataclass that lies in a file by itself, in their order."""
    return {name: field.kind for name, field in fields_of(value).items()}


def fields_of(value: type) -> dict[str, Field]:
    """The same, with what they are: the text in a field's annotation."""
    return {
        name: Field(marks[0], _about(marks)) for name, marks in marks_of(value).items() if isinstance(marks[0], Kind)
    }


def bits_of(value: type) -> dict[str, tuple[int, str]]:
    """The fields that are bits: each one's number, and what it is. ValueError: a bit is left out, or taken twice."""
    marked = marks_of(value).items()
    found = {name: (marks[0].number, _about(marks)) for name, marks in marked if isinstance(marks[0], Bit)}
    numbers = sorted(number for number, _ in found.values())
    if numbers != [1 << place for place in range(len(numbers))]:
        raise ValueError(f"{value.__name__} has the bits {numbers}, expected 1, 2, 4 and so on, each once")
    return found


def marks_of(value: type) -> dict[str, tuple[Any, ...]]:
    """What stands in the annotation of each field of a dataclass, beside its type."""
    return {name: hint.__metadata__ for name, hint in get_type_hints(value, include_extras=True).items()}


def _about(marks: tuple[Any, ...]) -> str:
    return next((mark for mark in marks if isinstance(mark, str)), "")


class Layout:
    """One struct: its name in C, and its fields in their order.

    `size` in bytes; `offset` of each field. Raises ValueError where C would put padding.
    """

    def __init__(self, name: str, fields: Mapping[str, Field]) -> None:
        self.name = name
        self.fields = dict(fields)
        self.offset: dict[str, int] = {}
        self._slots: dict[str, int | slice] = {}  # where a field stands in what `struct` gives
        at = place = 0
        for field_name, field in self.fields.items():
            if at % field.kind.width:
                raise ValueError(f"{name}.{field_name} lies at byte {at}, expected a multiple of {field.kind.width}")
            self.offset[field_name] = at
            at += field.kind.width * max(field.kind.count, 1)
            values = field.kind.count if field.kind.width > 1 else 0
            self._slots[field_name] = slice(place, place + values) if values else place
            place += values or 1
        self.size = at
        self._struct = struct.Struct("<" + "".join(field.kind.format for field in self.fields.values()))
        if at % max(field.kind.width for field in self.fields.values()):
            raise ValueError(f"{name} has {at} bytes, expected a multiple of its widest field")

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """The bytes of a struct: a number a field, a sequence a table, bytes where a table is one of bytes."""
        flat: list[Any] = []
        for name, slot in self._slots.items():
            if isinstance(slot, slice):
                flat += values[name]
            else:
                flat.append(values[name])
        return self._struct.pack(*flat)

    def unpack(self, data: bytes | memoryview, at: int = 0) -> dict[str, Any]:
        """What `pack` took, from these bytes; tables are tuples."""
        flat = self._struct.unpack_from(data, at)
        return {name: flat[slot] for name, slot in self._slots.items()}

    def row(self) -> list[tuple[str, str]]:
        """The same for numpy.dtype."""
        return [(name, field.kind.numpy) for name, field in self.fields.items()]
