"""What told flows' sizes, in bytes, as hostd counts it."""

from dataclasses import asdict

from qclimb.policy import Mode
from qclimb.record import BY_HTTP, BY_TRIAL, PARTLY_UNOBSERVED, FlowRecord
from qclimb.record_rows import from_records

from hostlib.hostd.known import Known, words


def flow(size: int, **changed: object) -> FlowRecord:
    fields: dict[str, object] = {"first_write_bytes": 1, "mode": Mode.QCLIMB, **changed}
    return FlowRecord(start_ns=1, last_write_ns=1, size_bytes=size, **fields)  # type: ignore[arg-type]


def test_each_byte_counts_for_the_first_source_that_told_its_flow() -> None:
    known = Known()
    known.add(
        from_records(
            [
                flow(100, first_write_bytes=100, announced_bytes=100, announced_by=BY_HTTP),
                flow(1_000, footprint_lower_bytes=1_000),
                flow(10_000, announced_bytes=10_000, announced_by=BY_HTTP),
                flow(100_000, announced_bytes=99_999, announced_by=BY_HTTP),
                flow(200_000, announced_bytes=200_000, announced_by=BY_TRIAL),
                flow(1_000_000, footprint_lower_bytes=1_000_000, mode=Mode.PIAS),
                flow(5, first_write_bytes=5, flags=PARTLY_UNOBSERVED),
            ]
        )
    )
    assert known == Known(6, 1_311_100, first_write=100, calls=1_000, announced=10_000)


def test_a_line_says_the_shares() -> None:
    assert words(asdict(Known())) == "no flows yet"
    told = words(asdict(Known(4, 2_000_000, 500_000, 500_000, 900_000)))
    assert told == "of 2.0 MB: 25.0 % by the first write, 25.0 % by further calls, 45.0 % announced, 5.0 % by nothing"
