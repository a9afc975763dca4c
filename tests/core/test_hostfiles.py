"""policy.h and crc32.h as a shim uses them; that C and Python mean the same bytes is test_layout.py's (contract)."""

import zlib

from hypothesis import given
from hypothesis import strategies as st
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from tests.core.core import Core


def test_thresholds_and_dscps_arrive_where_the_rule_uses_them(core: Core) -> None:
    policy = Policy(1, Mode.QCLIMB, (100, 1000, 10_000), default_dscp(4), slack_bytes=0)
    # Remaining 50 000, 1000, 999, 100, 99; then beyond what was asked for.
    sent = [0, 49_000, 49_001, 49_900, 49_901, 50_000]
    priorities, tos = core.policy_use(encode_policy(policy), asked=50_000, sent=sent)
    assert priorities == [3, 2, 1, 1, 0, 3]
    assert tos == [35 << 2, 39 << 2, 43 << 2, 43 << 2, 47 << 2, 35 << 2]


def test_a_flow_of_one_burst_is_served_as_pias_would(core: Core) -> None:
    policy = Policy(1, Mode.QCLIMB, (100, 1000, 10_000), default_dscp(4), slack_bytes=5000)
    one_burst, _ = core.policy_use(encode_policy(policy), asked=14_600, sent=[0, 99, 100, 999, 1000, 9999, 10_000])
    assert one_burst == [0, 0, 1, 1, 2, 2, 3]
    two, _ = core.policy_use(encode_policy(policy), asked=14_601, sent=[0, 4601, 4602, 14_600])
    assert two == [3, 3, 2, 0]


def test_mode_pias_demotes_the_same_flow_by_bytes_sent(core: Core) -> None:
    policy = Policy(1, Mode.PIAS, (100, 1000, 10_000), default_dscp(4), slack_bytes=5000)
    priorities, _ = core.policy_use(encode_policy(policy), asked=5000, sent=[0, 99, 100, 999, 1000, 9999, 10_000])
    assert priorities == [0, 0, 1, 1, 2, 2, 3]


@given(st.binary(max_size=700))
def test_random_bytes_are_no_policy(core: Core, data: bytes) -> None:
    assert core.policy_verify(data) < 0
    assert core.policy_verify(b"QCL1\x01\x00\x88\x02" + data) < 0


@given(st.binary(max_size=1500))
def test_the_checksum_is_zlibs(core: Core, data: bytes) -> None:
    assert core.crc32(data) == zlib.crc32(data)
