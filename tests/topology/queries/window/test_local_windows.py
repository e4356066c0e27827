"""Oracle: windows across days on which clocks change, with late and uncertain events."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from inorder.engine import RawEvent, replay
from inorder.testing import WindowRecord
from tests.kit.events import copies
from tests.kit.queries import aggregate_of
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import OUTPUTS, agree, last_word, oracle, rendered
from tests.topology.queries.window.streams import MS, START, disordered, event, payload_of, seeded
from tests.topology.queries.window.test_oracle import LASTING, run
from topology.base.event import Event
from topology.config import ClockConfig
from topology.queries.window.operator import Windows
from topology.queries.window.settings import WindowQuery

SEEDS = seeds_of_today(2)
HOUR_MS = 3_600_000
DAYS = {
    "forward": 1_774_656_000_000 - START // MS,  # 2026-03-28, the day before
    "back": 1_792_800_000_000 - START // MS,  # 2026-10-24
}
WINDOWS = (
    "tumbling 1d",
    "tumbling 8h from 06:00",
    "tumbling 1h",
    "sliding 2d every 1d",
    "sliding 4h every 1h",
)
every_window = pytest.mark.parametrize("text", WINDOWS)
each_way = pytest.mark.parametrize("way", DAYS)


def config_of(text: str, *, keyed: bool, **settings: Any) -> WindowQuery:
    window: Any = f"{text} in Europe/Berlin"
    return WindowQuery(
        name="q",
        window=window,
        aggregate={each.name: aggregate_of(each) for each in OUTPUTS},
        key="payload.key" if keyed else None,
        clock=ClockConfig(max_skew_ppb=100_000, max_error_ns=HOUR_MS * MS),
        **{**LASTING, **settings},
    )


def events_of(way: str, rng: Random, n: int = 60) -> list[Event]:
    """Return three days of events, some exactly at the change and at midnight."""
    times = [DAYS[way] + rng.randrange(72 * HOUR_MS) for _ in range(n)]
    times += [DAYS[way] + hour * HOUR_MS - rng.randrange(2) for hour in (22, 23, 24, 25, 26)]
    return [event("s", seq, ms, payload_of(rng)) for seq, ms in enumerate(sorted(times))]


@each_way
@every_window
def test_results_match_the_oracle(text: str, way: str) -> None:
    for seed, rng in seeded(SEEDS):
        config = config_of(text, keyed=seed % 2 == 0, early_ns=seed % 3 * HOUR_MS * MS)
        events = events_of(way, rng)
        stream = disordered(rng, copies(events), late=rng.choice((0.0, 0.1, 0.5)))
        agree(rendered(run(config, stream, rng), config), oracle(events, config))


@each_way
@every_window
def test_any_order_has_the_same_results(text: str, way: str) -> None:
    for _, rng in seeded(SEEDS):
        config = config_of(text, keyed=True)
        events = events_of(way, rng)
        for one in events:
            one.error_ns = rng.choice((0, 0, 20, 90)) * 60_000 * MS
        words = []
        for late in (0.0, 0.4):
            found = last_word(run(config, disordered(rng, copies(events), late=late), rng))
            words.append(sorted((w.id, repr((w.key, w.end_ns, w.values, w.low))) for w in found))
        assert words[0] == words[1]


@each_way
@every_window
def test_plain_case_matches_general_case(text: str, way: str) -> None:
    for _, rng in seeded(SEEDS):
        config = config_of(text, keyed=True)
        stream = disordered(rng, events_of(way, rng, 300), late=0.01)
        found = []
        for plain in (True, False):
            windows = Windows("default", config, plain=plain)
            results = windows.on_batch(copies(stream), stream[-1].at_ns).results
            found.append((results, windows.on_end(stream[-1].at_ns).results, windows.snapshot()))
        assert found[0] == found[1]


def raw(seq: int, ts_ns: int, late_ns: int = 0) -> RawEvent:
    return RawEvent(source="s", seq=seq, ts_ns=ts_ns, arrival_ns=ts_ns + late_ns)


@each_way
def test_all_answers_have_the_same_results(way: str) -> None:
    """A quality target also closes windows of local time, and its misses are corrected."""
    query = "window: tumbling 15min in Europe/Berlin, aggregate: {n: count()}"
    quality = "quality: {accuracy: 90%, max_wait: 10s}"
    topology = (
        "streams: {default: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 3s}}}\n"
        f"queries:\n  early: {{{query}}}\n  target: {{{query}, {quality}}}\n"
        f"  ahead: {{{query}, answer: speculate, {quality}}}\n  final: {{{query}, answer: final}}\n"
    )
    rng, change_ns = Random(1), START + DAYS[way] * MS + 25 * HOUR_MS * MS
    times = sorted(change_ns + rng.randrange(-HOUR_MS, HOUR_MS) // 2 * MS for _ in range(100))
    late = {number: rng.randrange(300_000) * MS for number in range(0, 100, 5)}
    inputs = [raw(number, ts_ns, late.get(number, 0)) for number, ts_ns in enumerate(times)]
    inputs.sort(key=lambda each: each.arrival_ns or 0)
    stands: dict[str, dict[int, tuple[int, Any]]] = {}
    revisions = 0
    for each in replay(topology, [*inputs, raw(100, change_ns + HOUR_MS * MS)]):
        if isinstance(each, WindowRecord):
            stands.setdefault(each.query, {})[each.start_ns] = each.end_ns, each.values
            revisions += each.revision
    for name in ("target", "ahead"):
        assert stands[name] == stands["early"]
    assert stands["final"].items() <= stands["early"].items()
    assert len(stands["final"]) >= 4
    assert revisions


@each_way
def test_empty_days_are_whole_days(way: str) -> None:
    topology = (
        "streams: {default: {clock: {unsynced: trust}}}\n"
        "queries: {q: {window: tumbling 1d in Europe/Berlin, empty: {value: zero, for: 4d},"
        " aggregate: {n: count()}}}\n"
    )
    times = [START + (DAYS[way] + hours * HOUR_MS) * MS for hours in (5, 77)]
    told = replay(topology, [raw(seq, ts_ns) for seq, ts_ns in enumerate(times)])
    days = {
        each.start_ns: ((each.end_ns - each.start_ns) // (HOUR_MS * MS), each.values["n"])
        for each in told
        if isinstance(each, WindowRecord)
    }
    change = {"forward": 23, "back": 25}[way]
    assert [days[start] for start in sorted(days)] == [(24, 1), (change, 0), (24, 0), (24, 1)]
