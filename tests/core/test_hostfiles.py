"""policy.h and crc32.h as a shim uses them; that C and Python mean the same bytes is test_layout.py's (contract)."""

import zlib

from hypothesis import given
from hypothesis import strategies as st
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from tests.core.core import Core


def test_thresholds_and_dscps_arrive_where_the_rule_uses_them(core: Core) -> None:
    policy = Policy(1, Mode.QCLIMB, (100, 1000, 10_000), default_dscp(4), slack_bytes=0)
    sent = [0, 4000, 4001, 4900, 4901, 5000]  # remaining 5000, 1000, 999, 100, 99; then beyond what was asked for
    priorities, tos = core.policy_use(encode_policy(policy), asked=5000, sent=sent)
    assert priorities == [2, 2, 1, 1, 0, 2]
    assert tos == [39 << 2, 39 << 2, 43 << 2, 43 << 2, 47 << 2, 39 << 2]


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
