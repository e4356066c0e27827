"""Oracle of matches: those expected from the events of the ordered topic.

It runs the engine over the ordered topic in one go, in order; tests/topology/queries/pattern shows
that the engine is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Setting
from topology.base.event import Event
from topology.base.outcome import Step
from topology.base.result import MatchResult
from topology.config import PatternQuery
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run.admit import STORED
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Query

Members = tuple[tuple[Any, ...], ...]
Content = tuple[str, Members]


def absences(within_s: int) -> str:
    """Return a query `gone` for sources that have sent nothing for `within_s` seconds."""
    pattern = f"PATTERN SEQ(_ a, !_ n) WHERE n.source = a.source WITHIN {within_s} s EMIT EAGER"
    return f"queries: {{gone: {{pattern: {pattern!r}}}}}\n"


def in_time(setting: Setting) -> list[Read]:
    """Return the ordered topic's events that are not below an earlier finality horizon.

    Only the first event of an unknown source can be below one.
    """
    found, frontier_ns, behind = [], 0, 0
    for record in read_all(setting.bootstrap, setting.ordered):
        if record.header("kind") == "watermark":
            marks = record.number("refTs"), record.number("complete")
            frontier_ns = max(frontier_ns, setting.decided_ns("default", *marks))
        elif record.number("refTs") >= frontier_ns:
            found.append(record)
        else:
            behind += 1
    assert behind < len(found) / 50
    return found


def matches_of(entries: Iterable[Entry], query: Query, least_stored: float = -1) -> set[Members]:
    """Return the matches of the events in order, and assert that more than `least_stored` events
    matter.
    """
    engine = Engine([Compiled(query)])
    for entry in sorted(entries, key=lambda each: each.key):
        engine.accept(entry, 0)
    engine.end(0)
    assert engine.counts[STORED] > least_stored
    found, step = set(), Step(0)
    engine.flush(step)
    for finding in step.results:
        assert isinstance(finding, MatchResult)
        assert finding.revision == 0
        found.add(tuple((m.alias, m.source, m.epoch, m.seq) for m in finding.members))
    return found


def in_one_go(setting: Setting) -> set[Content]:
    """Return the matches of all queries in the file."""
    entries = [_entry(record) for record in in_time(setting)]
    return {
        (name, members)
        for name, query in setting.topology.queries_of(PatternQuery).items()
        for members in matches_of(entries, query.pattern)
    }


def _entry(record: Read) -> Entry:
    source, epoch, seq = record.name
    event = Event("default", source, epoch, seq, record.number("refTs"), 0)
    return Entry(event, None)


def content_of(line: Mapping[str, Any]) -> Content:
    events = line["events"]
    return line["query"], tuple((e["alias"], e["source"], e["epoch"], e["seq"]) for e in events)
