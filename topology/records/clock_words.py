"""Reads clock reports from recorded lines and from records of `clock.offsets`.

A report is a round of time sync or a declared offset. A round has `t1`, `t2`, `t3` and `t4`, and
may have `server`, `segment` and `mono`. A declared offset has `at`, `offset` and `error`. A null
`offset` revokes the last declaration. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inorder.contract import MAX_INT64, MIN_INT64
from topology.base.sample import UNKNOWN_MONO, Declared, Sample
from topology.records.checker import Look
from topology.records.reasons import fault_of

MAX_OFFSET_NS: Final = 1 << 62
"""The largest declared offset: 146 years."""
MAX_DECLARED_ERROR_NS: Final = 3_600_000_000_000
"""The largest declared error, an hour. With a larger error, a declared offset is of no use."""
MAX_SERVER: Final = 64

ROUND: Final = ("t1", "t2", "t3", "t4")
BOUNDS: Final = {"offset": MAX_OFFSET_NS, "error": MAX_DECLARED_ERROR_NS}


def report_from_fields(look: Look, source: str, offset: int) -> Sample | Declared | None:
    """Return the report in the fields of `look`, with arrival time 0; None if a field is faulty."""
    values = look.values
    sampled = any(values.get(key) is not None for key in ROUND)
    withdrawn = not sampled and "offset" in values and values["offset"] is None
    times: dict[str, Any] = {"offset": None, "error": 0}
    for key in ROUND if sampled else ("at",) if withdrawn else ("at", "offset", "error"):
        bound = BOUNDS.get(key, MAX_INT64)
        times[key] = look.read_integer(key, 0 if key == "error" else -bound, bound)
        if values.get(key) is None:
            look.faults.append(fault_of("clock", "missing", f"`{key}`"))
    server = look.text("server", MAX_SERVER) if values.get("server") else None
    segment = look.read_integer("segment", 0, MAX_INT64) or 0
    mono_ns = look.read_integer("mono", MIN_INT64, MAX_INT64)
    if look.faults:
        return None
    if not sampled:
        return Declared(source, times["at"], times["offset"], times["error"], 0, offset)
    t1_ns, t2_ns, t3_ns, t4_ns = (times[key] for key in ROUND)
    mono_ns = UNKNOWN_MONO if mono_ns is None else mono_ns
    return Sample(source, t1_ns, t2_ns, t3_ns, t4_ns, 0, offset, server or "", segment, mono_ns)


def read_report(
    source: str, values: Mapping[str, Any], arrival_ns: int, offset: int
) -> Sample | Declared | str:
    """Return the report in a record of `clock.offsets`, or the description of all its faults."""
    look = Look(values, [], values, {})
    word = report_from_fields(look, source, offset)
    if word is None:
        return "; ".join(fault.detail for fault in look.faults)
    word.arrival_ns = arrival_ns
    return word
