"""Composes the sentences that say why events are buffered or late, and what helps.

`inorder explain`, a worker's status page and its log show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from topology.answer.rules import FINAL
from topology.base.late import CAUSES
from topology.queries.window.left_out import KINDS

if TYPE_CHECKING:
    from topology.base.field_use import FieldUse
    from topology.config.file import TopologyFile

NS_PER_MS: Final = 1_000_000
NAMED: Final = 5
"""Maximum number of sources that a sentence names."""

ABSENT: Final = "absent"
MANY_ABSENT: Final = 1_000
"""The number of events in a row without a field that suggests that the field was renamed."""

WHY_HELD: Final = {
    "start": "until the first number of its source is known",
    "time": "until no earlier event can come",
    "jump": "because its number jumped and no other event has confirmed it",
    "restart": "until the next events show whether its source has restarted",
    "epoch": "until epoch {epoch_in_force} of its source has ended",
}
"""Completes "buffered ..." for each reason; `why_held` handles the reason `hole`."""


def format_gap(missing: Sequence[int]) -> str:
    """Return a gap in words, by its first and last number."""
    first, last = missing
    return f"number {first}" if first == last else f"numbers {first} to {last}"


def why_held(waits: Mapping[str, Any]) -> str:
    """Return in words why REORDER buffers an event, or a source's first event."""
    if waits["reason"] in WHY_HELD:
        return WHY_HELD[waits["reason"]].format_map(waits)
    return f"after a gap at {format_gap(waits['missing'])}"


def why_awaited(source: Mapping[str, Any]) -> str:
    """Return in words why MERGE waits for a source."""
    if source["behind_hole"]:
        return "its events are buffered after a gap"
    if source["after_pause"]:
        return "the log paused and the source has not resumed"
    until = source["until"]
    return "it is idle" + ("" if until is None else f", until {until} at most")


def why_late(reason: str) -> str:
    """Return the words that complete "the event is late because ..."."""
    cause = CAUSES.get(reason)
    return reason if cause is None else f"{cause.because} ({reason})".replace("`", "")


def what_helps(reason: str) -> list[str]:
    """Return the remedy for late events of this cause; an empty list for an unknown cause."""
    cause = CAUSES.get(reason)
    return [] if cause is None else [f"what helps: {cause.remedy}".replace("`", "")]


def describe_scattered(stream: str, sources: Sequence[str]) -> list[str]:
    """Return a sentence about sources in several input partitions; an empty list without any."""
    if not sources:
        return []
    named = ", ".join(sources[:NAMED]) + (", and others" if len(sources) > NAMED else "")
    found = "a source" if len(sources) == 1 else f"{len(sources):,} sources"
    remedy = "key its records by source"
    return [f"{stream}: {found} arrived in several partitions of the input ({named}); {remedy}"]


def describe_set_back(stream: str, merge: Mapping[str, Any], source: str | None) -> list[str]:
    """Return a sentence about sources whose timestamps fall; an empty list if that is declared.

    `source` is the only one that the sentence is about, or None for all.
    """
    falls = merge.get("sets_back", {})
    falls = {name: ns for name, ns in falls.items() if source in (None, name)}
    largest_ns = max(falls.values(), default=0)
    if largest_ns <= merge.get("max_set_back_ns", 0):
        return []
    named = ", ".join(list(falls)[:NAMED])
    found = f"{stream}: events of {named} were set back by up to {format_duration(largest_ns)}"
    if source is None:
        beyond = merge["set_backs_beyond"]
        found += f", {beyond:,} in all below the completeness frontier"
    return [
        f"{found}; write clock: {{max_set_back: {round_up_to_seconds(largest_ns)}}} if this goes on"
    ]


def round_up_to_seconds(duration_ns: int) -> str:
    """Return a duration in whole seconds, as a topology file spells it, that is not shorter."""
    return f"{-(-duration_ns // (1_000 * NS_PER_MS))}s"


def open_ends(topology: TopologyFile) -> dict[str, str]:
    """Return, for each query, the log line about its first result that is not final.

    Queries have such a line if they emit results early but not again when they are final.
    """
    from topology.config.chains import allowed_lateness_ns  # Slow; `explain` does not need it.

    return {
        name: f"results of query {name} were emitted before they were final, and their last"
        " revision is not marked: write `finals: true` in the query to emit each again when it is"
        " final, at"
        f" most `correct_for` ({format_duration(allowed_lateness_ns(topology, query))}) after its"
        " end"
        for name, query in topology.queries.items()
        if not query.finals and query.answer != FINAL
    }


def describe_left_out(use: FieldUse) -> dict[str, str]:
    """Return a sentence for each kind of value of a field that its aggregate could not use.

    Under `ABSENT`, return one about `MANY_ABSENT` or more events in a row without the field.
    """
    place = f"{use.query}.{use.aggregate}"
    found = {}
    for kind, n, example in use.unusable:
        values = f"1 value of {use.field} is {KINDS[kind]}"
        if n > 1:
            values = f"{n:,} values of {use.field} are {kind}"
        found[kind] = f"{place}: {values}, such as {example}"
    if use.absent_in_row >= MANY_ABSENT:
        found[ABSENT] = f"{place}: the last {use.absent_in_row:,} events have no {use.field}"
    return found


def format_correction(clock: Mapping[str, Any]) -> str:
    """Return the formula that corrects a source's timestamps."""
    offset_ms, error_ms = (clock[key] / NS_PER_MS for key in ("offset_ns", "error_ns"))
    return f"ref_time = ts {offset_ms:+.3f} ms, give or take {error_ms:.3f} ms"


def format_duration(duration_ns: int) -> str:
    """Return a duration in words; a negative one counts as 0."""
    ms = max(duration_ns, 0) / NS_PER_MS
    if ms < 10_000:
        return f"{ms:.0f} ms"
    s = round(ms / 1_000)
    return f"{s // 60:,} min" if s >= 600 and s % 60 == 0 else f"{s:,} s"
