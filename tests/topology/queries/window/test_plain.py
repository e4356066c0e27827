"""Law: with the plain case switched off, windows have the same results and state, byte for byte.

Stretches of a stream that are in order and certain are plain. They alternate with stretches that
are late, uncertain, or between watermarks.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Output, window_query
from tests.kit.runs import cut, through_changelog
from tests.laws.streams import numbered
from tests.laws.streams_between import merged
from tests.seeds import seeds_of_today
from tests.topology.queries.window.streams import MS, START, event, payload_of
from tests.topology.queries.window.test_oracle import KINDS
from tests.topology.queries.window.test_oracle import config_of as window_config
from topology.base.event import HEARTBEAT, WATERMARK, Event
from topology.base.late import GAP
from topology.queries.window.cells import Makers, row_kind
from topology.queries.window.operator import Windows
from topology.queries.window.run import has_plain_case
from topology.queries.window.settings import WindowQuery

SEEDS = seeds_of_today(1)
TALLIED = ("avg", "count", "max", "min", "sum")
BATCHES = (1, 7, 100, 1_000)
EVENTS = 400

FLAT = tuple(Output(function, function, ("v",)) for function in TALLIED)
NESTED = (
    *FLAT,
    *(Output(f"{function} of w", function, ("in", "w")) for function in TALLIED),
    Output("sum of payloads", "sum", ()),
)
ALL = (*FLAT[:3], Output("first", "first", ("v",)), Output("q", "quantile", ("v",), 500_000))

SETTINGS: dict[str, dict[str, Any]] = {
    "tumbling, finals": {"finals": True},
    "tumbling, early": {"early_ns": 15 * MS},
    "tumbling, few": {"max_windows": 6},
    "tumbling, ignore": {"uncertainty": "ignore"},
}


def config_of(kind: str, outputs: tuple[Output, ...], *, keyed: bool) -> WindowQuery:
    """Return a query; `kind` is a kind of windows, or names settings for tumbling windows."""
    waits = {"new_source_allowance_ns": 20 * MS, "changes_for_ns": 300 * MS}
    settings = {"outputs": outputs, **waits, **SETTINGS.get(kind, {})}
    return window_config("tumbling" if kind in SETTINGS else kind, keyed=keyed, **settings)


def mixed(seed: int) -> list[Event]:
    """Return stretches of one kind after another; many events share an instant."""
    rng = Random(seed)
    stream: list[Event] = []
    ref_ms = at_ms = 0.0
    while len(stream) < EVENTS:
        sort = rng.choice(("plain", "plain", "plain", "late", "unsure", "watermarks"))
        for _ in range(rng.choice((1, 3, 20, 60))):
            ref_ms += rng.choice((0, 0, 0.25, 1, 3, 9))
            at_ms = max(at_ms + rng.choice((0, 0, 0, 0.5, 1)), ref_ms)
            late = sort == "late" and rng.random() < 0.6
            when_ms = max(0.0, ref_ms - rng.randrange(400)) if late else ref_ms
            made = event(f"s{rng.randrange(3)}", len(stream), when_ms, nested(rng), at_ms=at_ms + 1)
            made.late = GAP if late and rng.random() < 0.9 else ""
            if sort == "unsure":
                made.error_ns = rng.choice((0, 2, 2, 9)) * MS
            if rng.random() < 0.02:
                made.value = rng.choice((7, 2.5, b'{"key": "j", "v": 2.5}', b"{", b"", [1], "text"))
            stream.append(made)
            if sort == "watermarks" and rng.random() < 0.5:
                at_ms += rng.choice((0, 0, 20))
                stream.append(said(rng, made, at_ms + 1))
    return numbered(stream)


def nested(rng: Random) -> Any:
    payload = payload_of(rng)
    if isinstance(payload, dict) and rng.random() < 0.8:
        payload["in"] = rng.choice(({"w": rng.choice((1, 1.0, -0.0, 5e-324, 1e300, 7))}, {}, 3))
    return payload


def said(rng: Random, after: Event, at_ms: float) -> Event:
    kind = rng.choice((WATERMARK, WATERMARK, HEARTBEAT))
    said_ns = after.ref_time_ns + rng.choice((0, 0, 0, 20)) * MS
    control = Event("default", "s0", 0, 0, said_ns, START + round(at_ms * MS), kind=kind)
    control.complete_ns = said_ns - rng.choice((0, 50, 200)) * MS
    control.error_ns = control.error_all_ns = rng.choice((0, 0, 2, 5)) * MS
    return control


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "keyed"),
    [(FLAT, False), (FLAT, True), (NESTED, True), (ALL, True)],
    ids=["flat, all keys", "flat", "nested", "all aggregates"],
)
@pytest.mark.parametrize("kind", [*KINDS, *SETTINGS])
def test_plain_case_matches_the_general_one(
    kind: str, outputs: tuple[Output, ...], keyed: bool
) -> None:
    config = config_of(kind, outputs, keyed=keyed)
    for seed in SEEDS:
        for stream in (mixed(seed), copies(merged(seed))):
            for size in BATCHES if has_plain_case(config, ordered=True) else BATCHES[1:3]:
                rng = Random(seed)
                plain = Windows("default", config)
                general = Windows("default", config, plain=False)
                for batch in cut(stream, rng, (size,)):
                    given = plain.on_batch(batch, batch[-1].at_ns)
                    expected = general.on_batch(batch, batch[-1].at_ns)
                    assert repr(given.results) == repr(expected.results), (seed, size)
                    assert given.released == expected.released
                    assert plain.figures() == general.figures(), (seed, size)
                    if rng.random() < 10 * size / EVENTS:
                        if rng.random() < 0.7:
                            assert repr(plain.changes()) == repr(general.changes())
                        else:
                            assert repr(plain.snapshot()) == repr(general.snapshot())
                            state = through_changelog(plain.snapshot())
                            plain = Windows("default", config)
                            plain.restore(state, ())
                            general = Windows("default", config, plain=False)
                            general.restore(state, ())
                    assert plain.next_deadline_ns() == general.next_deadline_ns()
                end_ns = stream[-1].at_ns
                ends = [each.on_end(end_ns).results for each in (plain, general)]
                assert repr(ends[0]) == repr(ends[1])
                assert repr(plain.snapshot()) == repr(general.snapshot())


def test_plain_stretch_is_taken_as_one() -> None:
    """If it were not, the law above would compare the general case with itself."""
    stream = [event("s", i, 100 + i, {"key": "k", "v": i}, at_ms=101 + i) for i in range(40)]
    windows = Windows("default", config_of("tumbling", FLAT, keyed=True))
    windows.on_batch(stream[:1], stream[0].at_ns)
    windows._pass_time(stream[1].at_ns, windows._begin((), 0))
    assert windows._take_run(stream, 1) == 39


def test_column_matches_single_values() -> None:
    values = (1, 2, 3, -4, 0, 0.1, 0.2, 0.3, 1e15, -1e-9, 7.5, 3.0, 3, 5e-324, 1e308, 10**300)
    for seed in range(200):
        rng = Random(seed)
        outputs = NESTED if seed % 2 else FLAT
        makers = Makers([*window_query("q", "count", outputs, events=1).outputs.values()], {})
        assert makers.is_tallied
        assert len(makers.cells) == (3 if seed % 2 else 1)
        taken, added = makers.row(), makers.row()
        for _ in range(rng.randrange(4)):
            columns = [rng.choices(values, k=rng.randrange(5)) for _ in makers.cells]
            events = max(map(len, columns))
            taken.take(events, columns)
            for at in range(events):
                one = [column[at] if at < len(column) else None for column in columns]
                added.add(tuple(one), event("s", 0, 0))
        kind = row_kind(makers)
        assert repr(kind.dump(taken)) == repr(kind.dump(added))
        assert repr(makers.values(taken)) == repr(makers.values(added))
