"""The core's headers, called from Python through tests/core/probe.c."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qclimb.forest import Forest, float_key
from qclimb.hostfile import encode_forest
from qclimb.lengthfile import BIG_ENDIAN, CANDIDATE, CANDIDATES_MOST, TAGS_MOST, encode_lengths
from qclimb.lengths import Announced, LengthRule

HERE = Path(__file__).parent
INCLUDE = HERE.parent.parent / "hostlib" / "core" / "include"
UNKNOWN = 2**64 - 1
MAX_FEATURES, FEATURES = 16, 12


class Core:
    """The C functions with Python's types around them."""

    def __init__(self, library: Path) -> None:
        self.c = ctypes.CDLL(str(library))
        for name in (
            "probe_next_change",
            "probe_key_to_bytes",
            "probe_model_memory_bytes",
            "probe_foretell",
            "probe_size_of_message",
        ):
            getattr(self.c, name).restype = ctypes.c_uint64
        for name in ("probe_priority", "probe_crc32"):
            getattr(self.c, name).restype = ctypes.c_uint32

    def priority(self, thresholds: Sequence[int], bounds: Sequence[int], sent: int, demotion: int | None = None) -> int:
        table = (ctypes.c_uint64 * len(thresholds))(*thresholds)
        numbers = (*bounds, sent, sent if demotion is None else demotion)
        return int(self.c.probe_priority(table, len(thresholds), *map(ctypes.c_uint64, numbers)))

    def next_change(self, thresholds: Sequence[int], bounds: Sequence[int], sent: int, footprint: int = 0) -> int:
        table = (ctypes.c_uint64 * len(thresholds))(*thresholds)
        return int(self.c.probe_next_change(table, len(thresholds), *map(ctypes.c_uint64, (*bounds, sent, footprint))))

    def crc32(self, data: bytes) -> int:
        return int(self.c.probe_crc32(data, ctypes.c_size_t(len(data))))

    def candidates(self, head: bytes, size_bytes: int) -> tuple[LengthRule, ...]:
        """What a process would propose for a flow that began so."""
        found = (ctypes.c_uint8 * (4 * CANDIDATES_MOST))()
        count = self.c.probe_candidates(head, len(head), ctypes.c_uint64(size_bytes), found)
        told = (CANDIDATE.unpack(bytes(found), CANDIDATE.size * at) for at in range(count))
        return tuple(
            LengthRule(each["offset"], each["shape"] & ~BIG_ENDIAN, each["shape"] >= BIG_ENDIAN, each["constant_bytes"])
            for each in told
        )

    def tags(self, head: bytes) -> tuple[tuple[int, int], ...]:
        """What a process would say may be the message's type."""
        found = (ctypes.c_uint8 * (2 * TAGS_MOST))()
        count = self.c.probe_tags(head, len(head), found)
        return tuple((found[2 * at], found[2 * at + 1]) for at in range(count))

    def size_of_message(self, rule: bytes, head: bytes) -> int:
        """What a `struct qclimb_length_rule` says of the message that begins so; 0: nothing."""
        return int(self.c.probe_size_of_message(rule, head, len(head)))

    def foretell(self, known: Announced, head: bytes) -> int:
        """What the library says of a message that begins so, by the file that hostd would write of this."""
        data = encode_lengths([known])
        return int(self.c.probe_foretell(data, ctypes.c_size_t(len(data)), 0, head, len(head)))

    def policy_verify(self, data: bytes) -> int:
        return int(self.c.probe_policy_verify(data, ctypes.c_size_t(len(data))))

    def policy_use(self, data: bytes, asked: int, sent: Sequence[int]) -> tuple[list[int], list[int]]:
        """(priorities, ToS bytes) at each of the offsets `sent` of a flow that asked for `asked` bytes."""
        offsets = (ctypes.c_uint64 * len(sent))(*sent)
        priorities, tos = (ctypes.c_uint32 * len(sent))(), (ctypes.c_uint8 * len(sent))()
        size, count = ctypes.c_size_t(len(data)), ctypes.c_size_t(len(sent))
        assert self.c.probe_policy_use(data, size, ctypes.c_uint64(asked), offsets, count, priorities, tos) == 0
        return list(priorities), list(tos)

    def load_error(self, data: bytes) -> int:
        """0 or -errno of loading a model file, into memory of just the size that it asks for."""
        error, _ = self._model(data, "probe_predict_keys", None, 0, None, None)
        return error

    def predict_keys(self, forest: Forest, rows: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        keys = np.zeros((len(rows), MAX_FEATURES), np.int32)
        keys[:, : rows.shape[1]] = float_key(rows)
        lower, upper = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
        error, _ = self._model(
            encode_forest(forest), "probe_predict_keys", _at(keys), len(rows), _at(lower), _at(upper)
        )
        assert error == 0
        return lower, upper

    def predict_bytes(self, forest: Forest, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        assert values.shape[1] == FEATURES
        bounds = np.zeros((len(values), 2), np.uint64)
        error, _ = self._model(encode_forest(forest), "probe_predict_bytes", _at(values), len(values), _at(bounds))
        assert error == 0
        return bounds

    def _model(self, data: bytes, function: str, rows: Any, count: int, *out: Any) -> tuple[int, Any]:
        size = ctypes.c_size_t(len(data))
        need = self.c.probe_model_memory_bytes(data, size)
        memory = (ctypes.c_uint64 * (need // 8 + 1))()
        error = getattr(self.c, function)(data, size, memory, ctypes.c_size_t(need), rows, ctypes.c_size_t(count), *out)
        return int(error), memory


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)
