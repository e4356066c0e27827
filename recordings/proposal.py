"""Write the topology file that is proposed for recorded events: settings with their reasons.

`inorder init` proposes a file from recorded events or a topic. `inorder audit` proposes the one
under which it has judged the records. The settings of a stream are an `Advice`, and comments next
to the settings give the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from recordings.audit.advice import Advice, format_exact_duration
from recordings.audit.counting import Counting
from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.verdicts import verdict_of

NAMED: Final = 3
WINDOW_NS: Final = 60_000_000_000
"""The length of the windows in which events are counted, if nothing else is asked."""
FILE_PARTITIONS: Final = 4
"""The number of partitions that is proposed for the records of a file."""


@dataclass(frozen=True, slots=True)
class StreamProposal:
    """The proposed section of one stream.

    Attributes:
        advice: The settings.
        section: The keys of the stream that describe how its records are read.
        said: Comments on keys and `fields` of the section: how sure each guess is.
        notes: Further comments by key; that of the key "" is for the stream itself.
        has_heartbeats: Whether its sources may send heartbeats, so that results need not wait
            for new sources.
    """

    advice: Advice
    section: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    has_heartbeats: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the lines of the keys below the stream's name."""
        for key, value in self.section.items():
            if key != "fields":
                yield self._write_key(key, value)
        if "fields" in self.section:
            yield "fields:"
            for name, place in self.section["fields"].items():
                yield f"  {self._write_key(name, place)}"
        part = ""
        for key, value, why in self.advice.all_settings():
            if self.has_heartbeats and key == "merge.new_source_allowance":
                continue
            above, _, name = key.partition(".")
            if above != part:
                yield f"{above}:"
                yield from (f"  # {self.notes[above]}" for _ in range(above in self.notes))
                part = above
            why = self.notes.get(key, why)
            yield f"  {name}: {value}" + (f"  # {why}" if why else "")

    def _write_key(self, key: str, value: Any) -> str:
        said = f"  # {self.said[key]}" if key in self.said else ""
        return f"{key}: {to_yaml_scalar(value)}{said}"


def topology_text(
    streams: Mapping[str, StreamProposal],
    queries: Iterable[str],
    partitions: int = 1,
    *,
    apart: bool = False,
) -> str:
    """Return the text of the topology file.

    Args:
        streams: The sections by stream.
        queries: The lines of the queries.
        partitions: The number of partitions of each topic.
        apart: Whether the streams cannot share a topic, so that reorder and merge are one
            stage.
    """
    lines = ["streams:"]
    for name, stream in streams.items():
        seen = f"  # {stream.notes['']}" if "" in stream.notes else ""
        lines += [f"  {to_yaml_scalar(name)}:{seen}", *(f"    {line}" for line in stream.lines())]
    if apart:
        lines.append("# Streams with different units cannot share a topic.")
        lines.append("stages: [reorder+merge, window, pattern, join]")
    longest = max((each.advice for each in streams.values()), key=lambda one: one.correct_for_ns)
    why = longest.why_correct_for()
    if longest.tried is None:
        why = "`inorder audit` finds what this data needs"
    correct_for = f"correct_for: {format_exact_duration(longest.correct_for_ns)}"
    lines.append(f"{correct_for}  # {why}")
    return "\n".join([*lines, *queries, f"topics: {{partitions: {partitions}}}", ""])


def queries_of(length_ns: int) -> list[str]:
    """Return the lines of a topology file with the query that counts by window."""
    window = f"tumbling {format_exact_duration(length_ns)}"
    return ["queries:", f"  counts: {{window: {window}, aggregate: {{n: count()}}}}"]


def notes_of(counting: Counting, clocks: Mapping[str, JudgedClock]) -> dict[str, str]:
    """Return comments with the counts of a stream and its clocks, by the key that they explain."""
    machines = counting.machines.values()
    notes = {
        "": f"events: {counting.rows:,}; sources: {len(machines):,}",
        "merge.new_source_allowance": "no source sends heartbeats, so results wait this long",
    }
    if counting.numbered:
        overtaken = sum(machine.out_of_sequence for machine in machines)
        missing = sum(machine.epochs.missing for machine in machines)
        notes["reorder"] = f"arrived out of order: {overtaken:,}; never arrived: {missing:,}"
        if dead := counting.without_number:
            notes[""] += f"; dead, as no record of their source has a number: {dead:,}"
    wrong = [machine for machine in machines if (c := clocks.get(machine.name)) and c.is_wrong]
    if wrong:
        wrong.sort(key=lambda machine: -abs(clocks[machine.name].offset_ns))
        named = ", ".join(
            f"{to_yaml_scalar(each.name)} {verdict_of(each, clocks[each.name], counting.last_ns)}"
            for each in wrong[:NAMED]
        )
        more = f" and {len(wrong) - NAMED:,} more" if len(wrong) > NAMED else ""
        notes["clock"] = f"timestamps against arrivals: {named}{more}; time sync would measure them"
    if 1 < len(machines) <= NAMED:
        names = ", ".join(sorted(map(to_yaml_scalar, counting.machines)))
        notes["merge"] = f"expected_sources: [{names}]  # waited for even before their first record"
    return notes


def to_yaml_scalar(value: object) -> str:
    """Return the value as YAML on one line."""
    spelled: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1_000)
    return spelled.removesuffix("...\n").strip()
