"""End to end: pattern queries over recorded events out of order, through Kafka, with a worker
killed.

Quakes, numbered per network by their times, are up to a week late, and tags of a soccer match up to
four hours. Events reach the engine as they came, so that the engine alone corrects. The oracle is
the engine over all events in order at once. For one query of each trace, loops over all pairs or
triples check the oracle. These tests run in `make chaos`.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from benchmarks.traces import BASE_NS, MS, TraceAbsent, TraceRow, folder, read_usgs_quakes
from tests.end_to_end.detectors import StandingFindings
from tests.end_to_end.matches import Content, Members, matches_of
from tests.end_to_end.recordings import recorded
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.worker import at_work
from topology.base.event import Event
from topology.config import PatternQuery
from topology.queries.pattern.store.entry import Entry

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.chaos]

PIECE = 20
HOUR_NS = 3_600_000_000_000
SECOND_NS = 1_000_000_000

QUAKES = {
    "near": """PATTERN SEQ(earthquake a, earthquake b, earthquake c)
        WHERE a.mag >= 3 AND b.mag < a.mag AND c.mag < a.mag
        AND abs(b.lat - a.lat) < 1 AND abs(b.lon - a.lon) < 1
        AND abs(c.lat - a.lat) < 1 AND abs(c.lon - a.lon) < 1 WITHIN 6 h""",
    "swarm": """PATTERN SEQ(earthquake a, earthquake+ b[], earthquake c)
        WHERE a.mag >= 4.5 AND b.mag < 2 AND c.mag >= 4.5
        WITHIN 4 h USING skip_till_any MATCHES MAXIMAL""",
    "lull": """PATTERN SEQ(earthquake a, !earthquake n, earthquake b)
        WHERE a.mag >= 4.5 AND b.mag >= 4.5 AND n.mag >= 2.5 WITHIN 6 h""",
}

SOCCER = {
    "saved": """PATTERN SEQ(Pass p, Shot s, `Save attempt` k)
        WHERE p.source = s.source AND k.source != s.source
        WITHIN 10 s USING skip_till_any""",
    "set_piece": """PATTERN SEQ(Foul f, `Free Kick` k, Shot s)
        WHERE k.source = s.source AND f.source != k.source WITHIN 60 s""",
    "passes": """PATTERN SEQ(Pass+ p[], Shot s)
        WITHIN 20 s USING skip_till_any MATCHES MAXIMAL""",
}


def queries(patterns: Mapping[str, str]) -> str:
    lines = [f"  {name}: {{pattern: {json.dumps(text)}}}\n" for name, text in patterns.items()]
    return "queries:\n" + "".join(lines)


def numbered(rows: Iterable[TraceRow]) -> list[TraceRow]:
    """Return the rows in their own order, numbered per source by time."""
    rows, numbers = list(rows), dict[str, Any]()
    for at in sorted(range(len(rows)), key=lambda at: rows[at].ts_ns):
        source = rows[at].source
        rows[at] = rows[at]._replace(seq=next(numbers.setdefault(source, count())))
    return rows


def quakes() -> list[TraceRow]:
    def numeric(row: TraceRow) -> TraceRow:
        numbers = {name: float(row.payload[name] or "nan") for name in ("mag", "lat", "lon")}
        known = {name: value for name, value in numbers.items() if value == value}  # noqa: PLR0124
        return row._replace(payload=known)

    return numbered(map(numeric, read_usgs_quakes()))


def soccer() -> list[TraceRow]:
    path = folder() / "soccer_tagging" / "match_2058004.csv.gz"
    if not path.is_file():
        raise TraceAbsent(path)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = [
            TraceRow(0, row["source"], 0, BASE_NS + int(row["event_ms"]) * MS, row["event"], {})
            for row in csv.DictReader(lines)
        ]
    return numbered(rows)


def entries_of(rows: Sequence[TraceRow]) -> list[Entry]:
    entries = [
        Entry(Event("default", r.source, 0, r.seq, r.ts_ns, 0, type=r.type), r.payload)
        for r in rows
    ]
    return sorted(entries, key=lambda entry: entry.key)


def oracle(setting: Setting, rows: Sequence[TraceRow]) -> set[Content]:
    """Return the matches of all events in order."""
    return {
        (name, found)
        for name, query in setting.topology.queries_of(PatternQuery).items()
        for found in matches_of(entries_of(rows), query.pattern, len(rows) / 20)
    }


def members(*labelled: tuple[str, Entry]) -> Members:
    return tuple((alias, *entry.identity) for alias, entry in labelled)


def lulls(entries: Sequence[Entry]) -> set[Content]:
    """Return each strong quake with the next one, unless a quake that counts lies between them."""
    found = set()
    felt = [e for e in entries if e.type == "earthquake" and e.payload.get("mag", 0) >= 2.5]
    strong = [e for e in felt if e.payload["mag"] >= 4.5]
    for a in strong:
        later = [b for b in strong if a.time_ns < b.time_ns <= a.time_ns + 6 * HOUR_NS]
        if later and not any(a.time_ns < n.time_ns < later[0].time_ns for n in felt):
            found.add(("lull", members(("a", a), ("b", later[0]))))
    return found


def saves(entries: Sequence[Entry]) -> set[Content]:
    """Return every pass, shot of the same team, and save of the other team within 10 s."""
    passes, shots, tries = (
        [e for e in entries if e.type == type_] for type_ in ("Pass", "Shot", "Save attempt")
    )
    return {
        ("saved", members(("p", p), ("s", s), ("k", k)))
        for p in passes
        for s in shots
        for k in tries
        if p.time_ns < s.time_ns < k.time_ns <= p.time_ns + 10 * SECOND_NS
        and p.event.source == s.event.source != k.event.source
    }


@pytest.mark.parametrize(
    ("trace", "patterns", "stages", "correct_for", "by_loops"),
    [
        (quakes, QUAKES, "reorder+merge+pattern", "192h", lulls),
        (soccer, SOCCER, "reorder, merge+pattern", "5h", saves),
    ],
    ids=["quakes", "soccer"],
)
def test_engine_alone_corrects(
    settles: Settles,
    trace: Callable[[], list[TraceRow]],
    patterns: Mapping[str, str],
    stages: str,
    correct_for: str,
    by_loops: Callable[[Sequence[Entry]], set[Content]],
) -> None:
    rows = recorded(trace)
    asked = queries(patterns).replace("{pattern: ", "{answer: speculate, pattern: ")
    setting = settles(
        stages=stages,
        partitions=1,
        stream="reorder: {rule: fixed, max_wait: 1us, start: zero, late: pass}",
        more=f"{asked}correct_for: {correct_for}\n",
    )
    expected = oracle(setting, rows)
    looped = by_loops(entries_of(rows))
    assert looped
    (name,) = {name for name, _ in looped}
    assert {match for match in expected if match[0] == name} == looped
    assert {name for name, _ in expected} == patterns.keys()
    halfway = len(rows) // 2
    with at_work(setting) as worker, StandingFindings(setting) as standing:
        send_in_pieces(setting, rows[:halfway])
        standing.wait_until(lambda: bool(standing.poll()), lambda: "the first match")
        worker.kill_all()
        worker.start()
        send_in_pieces(setting, rows[halfway:])
        standing.await_expected(expected)
    print(f"{len(expected)} matches, {standing.corrections} corrections")
    assert standing.corrections > 0


def send_in_pieces(setting: Setting, rows: Sequence[TraceRow]) -> None:
    """Send the rows in pieces, since in one instant nothing would have to be corrected."""
    for at in range(0, len(rows), PIECE):
        send(
            setting,
            (
                (
                    row.source,
                    json.dumps(row.payload).encode(),
                    [*contract(row.source, row.seq, row.ts_ns, 0), ("type", row.type.encode())],
                )
                for row in rows[at : at + PIECE]
            ),
        )
