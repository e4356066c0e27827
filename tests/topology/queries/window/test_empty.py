"""Oracle: windows without events, and time-weighted means, match the sorted full input."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Output, window_query
from tests.kit.runs import results_of
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import (
    Found,
    agree,
    by_key,
    key_of,
    last_word,
    number,
    rendered,
    spans_of,
    values_of,
)
from tests.topology.queries.window.streams import (
    MS,
    START,
    disordered,
    event,
    seeded,
    sorted_events,
    watermark,
)
from tests.topology.queries.window.test_oracle import KINDS, run
from tests.topology.queries.window.test_worlds import world
from topology.base.event import DATA, Event
from topology.base.result import CONFIRMED
from topology.config import TopologyError, parse
from topology.queries.window.operator import Windows
from topology.queries.window.settings import EmptyConfig, WindowQuery
from topology.stage.query_digest import query_digest

SEEDS = seeds_of_today(3)
SPANS = [kind for kind in KINDS if kind not in ("session", "count")]
FILLS = ("zero", "last", "null")
OUTPUTS = (
    Output("n", "count"),
    Output("mean", "time_avg", ("v",)),
    Output("sum", "sum", ("v",)),
    Output("last", "last", ("v",)),
    Output("whose", "max_by", ("key",), by=("v",)),
)
EMPTY = {"n": 0.0, "sum": None, "last": None, "whose": None}


def config_of(
    kind: str, fill: Any, *, keyed: bool = True, for_ms: int = 170, **settings: Any
) -> WindowQuery:
    key = ("key",) if keyed else None
    empty = EmptyConfig(value=fill, for_ns=for_ms * MS) if fill else None
    known = {"outputs": OUTPUTS, "new_source_allowance_ns": 0, "hold_ns": 70 * MS}
    return window_query("q", key=key, empty=empty, **{**known, **KINDS[kind], **settings})


def sparse(rng: Random, n: int) -> list[Event]:
    """Return events like those of `sorted_events`, with longer silences."""
    events = sorted_events(rng, n)
    for each in events:
        each.ref_time_ns = each.ts_ns = START + 3 * (each.ref_time_ns - START)
    return events


def mean_of(events: Sequence[Event], start: int, end: int, hold_ns: int) -> float | None:
    """Return the mean over all ns of the value that holds at each ns, by definition."""
    found: list[tuple[int, Any]] = [(e.ref_time_ns, (e.value or {}).get("v")) for e in events]
    points = [(time, v) for time, v in found if number(v)]
    total, known = Fraction(0), 0
    for at, (time, v) in enumerate(points):
        until = min([time + hold_ns, end, *(each[0] for each in points[at + 1 : at + 2])])
        span = max(0, until - max(time, start))
        total, known = total + Fraction(v) * span, known + span
    return float(total / known) if known else None


def expected_of(events: Sequence[Event], config: WindowQuery, newest: int) -> Found:
    """Return the expected results.

    `newest` is the last time of an event that is in order or has a key.
    """
    found: Found = {}
    size, every = config.window.size_ns, config.window.step_ns
    for key, own in by_key(events, config).items():
        told = {span: values_of(each) for span, each in spans_of(own, config).items()}
        starts = sorted({each.ref_time_ns // every * every for each in own})
        start = starts[0]
        while config.empty is not None and start + every <= newest:
            start += every
            last = starts[bisect_right(starts, start) - 1]
            if (start, start + size) in told or start - last - every >= config.empty.for_ns:
                continue
            told[start, start + size] = dict(EMPTY)
            if config.empty.value == "zero":
                told[start, start + size]["sum"] = 0
            if config.empty.value == "last":
                told[start, start + size] = {**told[last, last + size], "n": 0.0}
        for (start, end), values in told.items():
            mean = mean_of(own, start, end, config.hold_ns)
            found[key, start, end] = {
                name: {**values, "whose": values.get("max_by", values.get("whose")), "mean": mean}[
                    name
                ]
                for name in config.outputs
            }
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fill", [*FILLS, ""])
@pytest.mark.parametrize("kind", SPANS)
def test_results_match_the_oracle(kind: str, fill: str) -> None:
    corrected = empty = 0
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, fill, keyed=seed % 3 > 0, finals=seed % 2 == 0)
        events = sparse(rng, 40)
        for late in (0.0, 0.3, 0.6):
            stream = disordered(rng, copies(events), late=late)
            results = run(config, stream, rng)
            told = rendered(results, config)
            counted = [each for each in stream if not each.late or key_of(each, config)]
            newest = max(each.ref_time_ns for each in counted if each.kind == DATA)
            agree(told, expected_of(events, config, newest))
            corrected += sum(each.op == "update" for each in results)
            empty += sum(values["n"] == 0 for values in told.values())
    assert corrected
    assert empty or not fill


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPANS)
def test_mean_of_filtered_values_is_right(kind: str) -> None:
    """A late value holds past the next events of its key that do not meet the condition."""
    corrected = 0
    for seed, rng in seeded(SEEDS):
        known = config_of(kind, "null", keyed=seed % 3 > 0, outputs=OUTPUTS[:2], hold_ns=900 * MS)
        named = dict(known.aggregate or {})
        named["mean"] = named["mean"]._replace(where="payload.v > 2")
        config = known.model_copy(update={"aggregate": named})
        events = sparse(rng, 40)
        rare = [e for e in events if number(v := (e.value or {}).get("v")) and (v or 0) > 2]
        assert 0 < len(rare) < 20
        stream = disordered(rng, copies(events), late=0.4)
        results = run(config, stream, rng)
        newest = max(
            e.ref_time_ns
            for e in stream
            if e.kind == DATA and not (e.late and key_of(e, config) is None)
        )
        expected = expected_of(events, config, newest)
        of_key = by_key(rare, config)
        for (key, start, end), values in expected.items():
            values["mean"] = mean_of(of_key.get(key, ()), start, end, config.hold_ns)
        agree(rendered(results, config), expected)
        corrected += sum(each.op == "update" for each in results)
    assert corrected


MEAN = Output("mean", "time_avg", ("v",))


def told_of(operator: Windows, *events: Event, end_ms: int | None = None) -> list[tuple[Any, ...]]:
    """Return each result's operation, key, start in ms and values, with `!` if confirmed."""
    results = results_of(operator, *events) + list(operator.on_time(events[-1].at_ns).results)
    if end_ms is not None:
        results += operator.on_end(START + end_ms * MS).results
    return [
        (r.op, r.key, (r.start_ns - START) // MS, *r.values.values())
        + (("!",) if r.confidence == CONFIRMED else ())
        for r in results
    ]


def counting(**settings: Any) -> Windows:
    empty = EmptyConfig(value="zero", for_ns=settings.pop("for_ms", 30) * MS)
    query = window_query(
        "q", "tumbling", settings.pop("outputs", OUTPUTS[:1]), 10 * MS, key=("k",), empty=empty,
        **settings,
    )  # fmt: skip
    return Windows("default", query)


def of(key: str, seq: int, ref_ms: float, v: Any = 1, **how: Any) -> Event:
    return event(key, seq, ref_ms, {"k": key, "v": v}, **how)


def test_silent_key_ends_after_for_time() -> None:
    ticks = [of("tick", seq, 10 * seq + 5) for seq in range(1, 9)]
    told = told_of(counting(), of("a", 0, 1), *ticks)
    assert [each[2:4] for each in told if each[1] == "a"] == [(0, 1), (10, 0), (20, 0), (30, 0)]


@pytest.mark.parametrize("comes_ms", [41, 86], ids=["early", "late"])
def test_windows_between_come_once(comes_ms: int) -> None:
    """An event of the key comes in time, or after the empty windows."""
    back = of("a", 1, 41, at_ms=comes_ms, late="gap" if comes_ms > 41 else "")
    events = [of("a", 0, 1), *(of("tick", seq, 10 * seq + 5) for seq in range(1, 9)), back]
    told = told_of(counting(for_ms=100), *sorted(events, key=lambda each: each.at_ns))
    last = {each[2]: each[3] for each in told if each[1] == "a"}
    assert last == {0: 1, 10: 0, 20: 0, 30: 0, 40: 1, 50: 0, 60: 0, 70: 0}
    updates = [each for each in told if each[0] == "update"]
    assert [each[2:4] for each in updates] == ([(40, 1)] if comes_ms > 41 else [])


def test_end_emits_no_future_window() -> None:
    told = told_of(counting(for_ms=1_000), of("a", 0, 1), of("b", 0, 25), end_ms=900)
    assert [each[1:4] for each in told] == [
        ("a", 0, 1), ("a", 10, 0), ("a", 20, 0), ("b", 20, 1)
    ]  # fmt: skip


def test_keys_are_bounded_and_forgotten() -> None:
    operator = counting(max_windows=2, outputs=(MEAN,), hold_ns=20 * MS, new_source_allowance_ns=0)
    events = [of(key, 0, 1 + at) for at, key in enumerate("abc")]
    told_of(operator, *events)
    assert operator.figures()["keys"] == 2
    assert operator.figures()["refused"] == 1
    told_of(operator, of("a", 1, 95), watermark(300, 300, 300), of("c", 1, 310, at_ms=310))
    assert operator.figures()["keys"] == 1


def test_windows_not_final_are_bounded() -> None:
    operator = counting(max_windows=5, for_ms=10_000, finals=True)
    told_of(operator, of("a", 0, 1), *(watermark(at, at, 0) for at in range(10, 400, 10)))
    figures = operator.figures()
    assert figures["not_final"] <= 5
    assert figures["given_up"] > 20


def test_late_old_value_is_uncertain() -> None:
    operator = counting(max_recount=2, outputs=(MEAN,))
    events = [of("a", seq, seq, seq) for seq in range(1, 8)]
    told = told_of(operator, *events, of("a", 8, 11), of("a", 0, 2.5, 90, at_ms=12, late="gap"))
    mean = pytest.approx((1 + 2 + 3 + 4 + 5 + 6 + 3 * 7) / 9)
    assert told == [("emit", "a", 0, mean, "!"), ("update", "a", 0, mean)]
    assert told_of(operator, of("a", 9, 22, at_ms=22)) == [
        ("emit", "a", 10, pytest.approx(1.6), "!")
    ]


def test_values_before_a_gap_are_uncertain() -> None:
    """One event is missing for good, and only values after it are certain."""
    operator = counting(outputs=(MEAN,), changes_for_ns=40 * MS, for_ms=500)
    lost = [watermark(at, at, 8) for at in (20, 35, 49)]
    found = watermark(51, 51, 51)
    told = told_of(operator, of("a", 0, 5, 2), *lost, found, watermark(75, 75, 75))
    assert [(each[2], each[-1]) for each in told] == [
        (0, 2.0), (10, 2.0), (20, 2.0), (30, 2.0), (40, 2.0), (50, 2.0), (60, 2.0)
    ]  # fmt: skip
    told = told_of(operator, of("a", 1, 80, 3), watermark(95, 95, 95))
    assert told == [("emit", "a", 70, 2.0), ("emit", "a", 80, 3.0, "!")]


def test_values_before_query_are_uncertain() -> None:
    operator = counting(outputs=(MEAN,), for_ms=500, hold_ns=500 * MS)
    operator.restore({}, ())
    told = told_of(operator, of("a", 0, 5), watermark(9, 9, 9), of("a", 1, 15, 5))
    told += told_of(operator, watermark(35, 35, 35))
    assert told == [("emit", "a", 10, 3.0), ("emit", "a", 20, 5.0, "!")]


def test_value_expires_after_hold_time() -> None:
    operator = counting(outputs=(MEAN,), hold_ns=12 * MS, for_ms=500)
    told = told_of(operator, of("a", 0, 5, 2), of("a", 1, 26, 6), watermark(50, 50, 50))
    assert told == [
        ("emit", "a", 0, 2.0, "!"), ("emit", "a", 10, 2.0, "!"), ("emit", "a", 20, 6.0, "!"),
        ("emit", "a", 30, 6.0, "!"), ("emit", "a", 40, None, "!"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPANS)
def test_true_mean_is_within_the_bounds(kind: str) -> None:
    """The true mean is within the bounds for all clock errors, and confirmed means are true."""
    confirmed = bounded = 0
    for seed in range(12):
        rng = Random(seed)
        stamped, true = world(rng, 45)
        config = config_of(kind, "null", keyed=seed % 2 > 0, outputs=OUTPUTS[:2], hold_ns=1 << 50)
        told = {
            ("-" if config.key is None else repr(w.key), w.start_ns, w.end_ns): w
            for w in last_word(run(config, disordered(rng, copies(stamped))))
        }
        expected = expected_of(true, config, max(each.ref_time_ns for each in stamped))
        for window in told.keys() & expected.keys():
            mean, result = expected[window]["mean"], told[window]
            low, high = result.low["mean"], result.high["mean"]
            slack = 1e-9 * abs(mean or 0)
            if result.confidence == CONFIRMED:
                confirmed += 1
                assert result.values["mean"] == mean, (seed, window)
            elif low is not None and mean is not None:
                bounded += 1
                assert low - slack <= mean <= high + slack, (seed, window, low, mean, high)
    assert confirmed
    assert bounded


REFUSED = {
    "window: session 1s, empty: true": "a session window begins with an event, so none is empty",
    "window: count 5, empty: last": "a count window begins with an event, so none is empty",
    "window: tumbling 1s, hold: 1s": "has no effect without `time_avg`",
    "window: tumbling 1ms, empty: zero": "more than 10000 windows without events",
    "window: tumbling 1s, empty: nil": "`nil` is not known here",
    "window: tumbling 1s, empty: {for: 0s}": "`0s` is too small",
}


@pytest.mark.parametrize("query", REFUSED)
def test_senseless_settings_are_refused(query: str) -> None:
    text = f"streams: {{s: {{}}}}\nqueries: {{q: {{{query}, aggregate: {{n: count()}}}}}}\n"
    with pytest.raises(TopologyError) as refusal:
        parse(text)
    assert REFUSED[query] in str(refusal.value)


def filled_by(text: str, *more: str) -> Any:
    aggregate = "{m: time_avg(payload.v)}" if more else "{n: count()}"
    query = ", ".join(
        [f"window: tumbling 1s, aggregate: {aggregate}", *more, *filter(None, [text])]
    )
    return parse(f"streams: {{s: {{}}}}\nqueries: {{q: {{{query}}}}}\n")


SHORT = {"true": "zero", "zero": "zero", "last": "last", "null": "null", "{value: null}": "null"}


@pytest.mark.parametrize(("text", "value"), SHORT.items())
def test_empty_has_short_forms(text: str, value: str) -> None:
    assert filled_by(f"empty: {text}").queries["q"].empty == EmptyConfig(value=value)  # type: ignore[arg-type]
    assert filled_by("empty: false").queries["q"].empty is None


def test_empty_setting_changes_the_query() -> None:
    """A changed query starts afresh (docs/operate/change.md), and others continue."""
    topologies = [
        *(filled_by(text) for text in ("", "empty: zero", "empty: null", "empty: {for: 2h}")),
        *(filled_by("", hold) for hold in ("hold: 1h", "hold: 2h")),
    ]
    assert len({query_digest(each, "q") for each in topologies}) == len(topologies)
    assert query_digest(filled_by("empty: false"), "q") == query_digest(topologies[0], "q")
