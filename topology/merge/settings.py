"""What MERGE is asked for: the settings that it reads of a stream."""

from __future__ import annotations

from typing import Protocol


class MergeSettings(Protocol):
    """The section `merge` of a stream."""

    miss_target_ppm: int
    max_wait_ns: int
    idle_after_ns: int
    quiet_after_ns: int
    outage_wait_ns: int
    max_queued: int
    max_queued_bytes: int
    expected_sources: tuple[str, ...]
