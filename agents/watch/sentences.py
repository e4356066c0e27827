"""What waits and why, in words: for `inorder explain`, one event explained, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from topology.answer.rules import FINAL
from topology.model.late import CAUSES

if TYPE_CHECKING:
    from topology.config.file import TopologyFile

NS_PER_MS: Final = 1_000_000
NAMED: Final = 5
"""Sources that a sentence names."""


def numbers(missing: Sequence[int]) -> str:
    """The first and the last, as one."""
    first, last = missing
    return f"number {first}" if first == last else f"numbers {first} to {last}"


def why_held(waits: Mapping[str, Any]) -> str:
    """Why REORDER holds an event, or the first of a source: `reason` and what belongs to it."""
    match waits["reason"]:
        case "start":
            return "until it is known where its source starts"
        case "time":
            return "until no earlier one is to be expected"
        case "jump":
            return "as its number jumped and no other has confirmed it"
        case "epoch":
            return f"until epoch {waits['epoch_in_force']} of its source is over"
    return f"behind {numbers(waits['missing'])}"


def why_awaited(source: Mapping[str, Any]) -> str:
    """Why MERGE waits for a source."""
    if source["behind_hole"]:
        return "its events wait behind a hole"
    if source["after_pause"]:
        return "the log paused and it is not back yet"
    until = source["until"]
    return "it is silent" + ("" if until is None else f", until {until} at most")


def why_late(reason: str) -> str:
    """Ends the sentence "the event is late because ..."."""
    cause = CAUSES.get(reason)
    return reason if cause is None else f"{cause.because} ({reason})".replace("`", "")


def what_helps(reason: str) -> list[str]:
    """Against late events of this cause; nothing where the cause is not known."""
    cause = CAUSES.get(reason)
    return [] if cause is None else [f"what helps: {cause.remedy}".replace("`", "")]


def scattered(stream: str, sources: Sequence[str]) -> list[str]:
    """Where sources came by several input partitions; nothing where none did."""
    if not sources:
        return []
    named = ", ".join(sources[:NAMED]) + (", and others" if len(sources) > NAMED else "")
    found = "a source" if len(sources) == 1 else f"{len(sources):,} sources"
    remedy = "key its records by source"
    return [f"{stream}: {found} came by several partitions of the input ({named}); {remedy}"]


def open_ends(topology: TopologyFile) -> dict[str, str]:
    """By query that emits results before they are final, and none once more when it is: what to say
    of the first."""
    return {
        name: f"results of query {name} were emitted before they were final, and no record says"
        " when they are: write `finals: true` in a query, and each comes once more when it is, at"
        f" the latest `correct_for` ({duration(topology.corrects_for_ns(query))}) after its end"
        for name, query in topology.queries.items()
        if not query.finals and query.answer != FINAL
    }


def reference_time(clock: Mapping[str, Any]) -> str:
    """How a source's reference time follows from its own."""
    offset_ms, error_ms = (clock[key] / NS_PER_MS for key in ("offset_ns", "error_ns"))
    return f"ref_time = ts {offset_ms:+.3f} ms, give or take {error_ms:.3f} ms"


def duration(duration_ns: int) -> str:
    """None is below 0."""
    ms = max(duration_ns, 0) / NS_PER_MS
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1_000:.0f} s"
