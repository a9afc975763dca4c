"""`make layout` writes include/qclimb/layout.h: what qclimb.hostfile says of the structs of host files, as C."""

import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from qclimb import hostfile, lengthfile, record
from qclimb.layout import Layout, bits_of
from qclimb.policy import Policy

HEADER = Path(__file__).parent / "include" / "qclimb" / "layout.h"
HEAD = """\
/*
 * How a host's files and datagrams lie in memory, and the ranges of a policy's numbers. Little endian, no padding.
 * Not written by hand: `make layout` takes it from the types in gnmi-models/qclimb (policy.py, record.py, hostfile.py),
 * and a test holds it to them. policy.h, model.h and record.h say what is done with it.
 */
#ifndef QCLIMB_LAYOUT_H
#define QCLIMB_LAYOUT_H

#include <stdint.h>
"""
KINDS = {
    "policy": (hostfile.POLICY_MAGIC, (hostfile.POLICY,)),
    "model": (hostfile.MODEL_MAGIC, (hostfile.MODEL_HEADER, hostfile.NODE)),
    "record": (hostfile.RECORD_MAGIC, (hostfile.RECORD_HEADER, hostfile.RECORD)),
    "lengths": (lengthfile.LENGTHS_MAGIC, (lengthfile.LENGTHS_HEADER, lengthfile.ENTRY)),
    "proposal": (lengthfile.PROPOSAL_MAGIC, (lengthfile.PROPOSAL, lengthfile.CANDIDATE, lengthfile.TAG)),
}
VERSIONS = {"record": hostfile.RECORD_VERSION}


def declared(declaration: str, about: str) -> str:
    """A line of a struct or enum; what it is stands behind it, or before it where that is too long."""
    if not about:
        return f"\t{declaration}\n"
    line = f"\t{declaration} /* {about} */"
    if len(line.expandtabs(8)) <= 120:
        return f"{line}\n"
    if len(about) <= 106:
        return f"\t/* {about} */\n\t{declaration}\n"
    said = "".join(f"\t * {part}\n" for part in textwrap.wrap(about, 108))
    return f"\t/*\n{said}\t */\n\t{declaration}\n"


def struct(layout: Layout) -> Iterator[str]:
    """A struct."""
    yield f"\nstruct {layout.name} {{\n"
    for name, field in layout.fields.items():
        table = f"[{field.kind.count}]" if field.kind.count else ""
        yield declared(f"{field.kind.c_type} {name}{table};", field.about)
    yield "};\n"


def enum(name: str, values: dict[str, tuple[int, str]]) -> Iterator[str]:
    """Bits of a word, by the enum's name."""
    yield f"\nenum {name} {{\n"
    for value, (number, about) in values.items():
        yield declared(f"{value} = {number},", about)
    yield "};\n"


def policy_functions() -> Iterator[str]:
    """What every policy file has, with the default of each field that has one; and the ranges of its numbers."""
    yield "\n/* What tells the file's kind, and each field that has a default at it. */\n"
    yield "static inline void qclimb_policy_set_defaults(struct qclimb_policy *policy)\n{\n"
    on = [f"QCLIMB_{field.name.upper()}" for field in fields(Policy) if field.default is True]
    values: dict[str, object] = {"magic": "QCLIMB_POLICY_MAGIC", "version": "QCLIMB_POLICY_VERSION"}
    values |= {"struct_bytes": "sizeof(*policy)", "flags": " | ".join(on)}
    values |= {field.name: field.default for field in fields(Policy) if type(field.default) is int}
    values |= {name: 0 for name in hostfile.POLICY.fields if name.startswith("reserved")}
    for name, value in values.items():
        yield f"\tpolicy->{name} = {value};\n"
    yield "}\n\n/* Whether no number is beyond its range. */\n"
    yield "static inline int qclimb_policy_is_in_range(const struct qclimb_policy *policy)\n{\n"
    for name, field in hostfile.POLICY.fields.items():
        if field.kind.is_narrowed:
            yield f"\tif (policy->{name} > {field.kind.highest})\n\t\treturn 0;\n"
    yield "\treturn 1;\n}\n"


def text() -> str:
    """The whole header."""
    parts = [HEAD]
    for kind, (magic, layouts) in KINDS.items():
        word = magic.to_bytes(4, "little").decode()
        parts.append(f'\n#define QCLIMB_{kind.upper()}_MAGIC {magic:#x}u /* "{word}" */\n')
        parts.append(f"#define QCLIMB_{kind.upper()}_VERSION {VERSIONS.get(kind, hostfile.VERSION)}\n")
        if kind == "policy":
            bits = {f"QCLIMB_{name.upper()}": bit for name, bit in bits_of(Policy).items()}
            parts += enum("qclimb_policy_flag", bits)
        if kind == "record":
            parts.append(f"#define QCLIMB_RECORD_MANY {record.MANY_FLOWS} /* flows: QCLIMB_RECORD_FOR_MANY */\n")
            parts += enum("qclimb_record_flag", {f"QCLIMB_RECORD_{name}": bit for name, bit in record.FLAGS.items()})
            parts += enum("qclimb_announced_by", {f"QCLIMB_{name}": by for name, by in record.ANNOUNCERS.items()})
        for layout in layouts:
            parts += struct(layout)
        if kind == "policy":
            parts += policy_functions()
    return "".join(parts) + "\n#endif\n"


if __name__ == "__main__":
    HEADER.write_text(text())
