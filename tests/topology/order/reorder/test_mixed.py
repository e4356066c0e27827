"""Law and examples: sources with numbers beside sources without, in one stream."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.runs import cut, through_changelog
from tests.laws.cases_by_time import fixed, mixed, mixed_reorder
from tests.laws.streams_between import MAX_WAIT
from tests.seeds import seeds_of_today
from topology.base.event import BLOCKED, DATA, DEAD, UNBLOCKED, Event
from topology.base.operator import Operator
from topology.base.outcome import Duplicate, Gap, Malformed, Report, Step
from topology.config import ReorderConfig, TopologyError, parse
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.operator import Reorder
from topology.records.line_reader import LineReader, Row
from topology.stage.replay import Replay

MS = 1_000_000
SEEDS = seeds_of_today(40)


def run(operator: Operator, events: list[Event], rng: Random | None = None) -> Step:
    """Return the sum of all the operator's steps up to the end, in batches drawn by `rng`."""
    total = Step(0)
    for batch in [events] if rng is None else cut(events, rng):
        if batch:
            total.add(operator.on_batch(batch, batch[-1].at_ns))
    total.add(operator.on_end(events[-1].at_ns + 1))
    return total


def told(step: Step) -> dict[str, list[Any]]:
    """Return the emitted events and the reports of each source, in order.

    UNBLOCKED is left out, since MERGE infers it in a numbered stream.
    """
    said: dict[str, list[Any]] = {}
    for each in step.released:
        if each.kind != UNBLOCKED:
            one = (each.at_ns, each.offset, each.epoch, each.seq, each.kind, each.late)
            said.setdefault(each.source, []).append(one)
    for report in step.reports:
        said.setdefault(_source(report), []).append(repr(report))
    return said


def _source(report: Report) -> str:
    found = report if isinstance(report, Gap | Malformed) else report.event
    return found.source or ""


def of_kind(events: list[Event], *, numbered: bool) -> list[Event]:
    """Return the events of the sources of one kind, without dead letters of the other kind."""
    first: dict[str, bool] = {}
    for event in events:
        first.setdefault(event.source, event.seq >= 0)
    found = []
    for event in copies(events):
        if first[event.source] == numbered == (event.seq >= 0):
            event.seq = event.seq if numbered else ~event.seq
            found.append(event)
    return found


SETTINGS: list[dict[str, Any]] = [
    {},
    {"miss_target": "20%", "late": "side"},
    {"max_wait": "9ms", "late": "drop"},
    {"max_held": 3, "max_held_total": 6},
    {"max_sources": 1, "forget_after": "60ms"},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_law_kinds_do_not_affect_each_other(settings: dict[str, Any]) -> None:
    seen = 0
    for seed in SEEDS:
        events = mixed(seed)
        if "max_sources" in settings:  # A forgotten source can return as the other kind.
            kinds = {True: {"s0", "s2"}, False: {"s1", "s3"}}
            events = [event for event in events if event.source in kinds[event.seq >= 0]]
        common = {"max_wait": MAX_WAIT, "max_jump": 100, **settings}
        step = run(mixed_reorder(**settings), copies(events), Random(seed))
        step.reports = [each for each in step.reports if getattr(each, "reason", "") != "seq_mixed"]
        config = ReorderConfig(**{"without_seq": "by_time", **common})
        numbered = Reorder("default", config)
        timed = ReorderByTime("default", config)
        alone: dict[str, list[Any]] = {}
        for operator, is_numbered in ((numbered, True), (timed, False)):
            own = of_kind(events, numbered=is_numbered)
            if own:
                own_step = Step(0)
                own_step.add(operator.on_batch(own, events[-1].at_ns))
                own_step.add(operator.on_end(events[-1].at_ns + 1))
                alone |= told(own_step)
        assert told(step) == alone, f"seed {seed}"
        seen += len(alone)
    assert seen > 100


def test_every_block_ends() -> None:
    """In a mixed stream an emitted event does not end a block by itself."""
    for seed in SEEDS:
        waits: dict[str, int] = {}
        for each in run(mixed_reorder(), mixed(seed), Random(seed)).released:
            if each.kind in (BLOCKED, UNBLOCKED):
                waits[each.source] = each.kind == BLOCKED
        assert not any(waits.values()), f"seed {seed}"


# -- examples --------------------------------------------------------------------------------------


def event(source: str, offset: int, seq: int | None = None, kind: str = DATA) -> Event:
    number = ~offset if seq is None else seq
    at_ns = (100 + offset) * MS
    return Event("default", source, -1, number, at_ns, at_ns, offset, kind=kind)


def dead(step: Step) -> list[tuple[str, int, int | None]]:
    return [
        (each.reason, each.offset, each.seq) for each in step.reports if isinstance(each, Malformed)
    ]


def test_first_event_decides_kind() -> None:
    reorder = mixed_reorder(fixed(0))
    events = [
        event("a", 0, 0), event("b", 1), event("a", 2), event("b", 3, 5), event("b", 4, 6, DEAD),
        event("a", 5, 1), event("b", 6),
    ]  # fmt: skip
    step = reorder.on_batch(events, 200 * MS)
    left = [(each.source, each.offset, each.seq) for each in step.released if each.kind == DATA]
    assert left == [("a", 0, 0), ("b", 1, 1), ("a", 5, 1), ("b", 6, 2)]
    assert dead(step) == [("seq_mixed", 2, None), ("seq_mixed", 3, 5)]
    assert "it differs from the first; number all events or none" in str(step.reports[0])


def test_both_kinds_can_be_located() -> None:
    reorder = mixed_reorder(fixed(50))
    reorder.on_batch([event("a", 0, 0), event("a", 1, 2), event("b", 2)], 110 * MS)
    waiting = reorder.explain()["waiting"]
    assert [(each["source"], each["reason"]) for each in waiting] == [("a", "hole"), ("b", "time")]
    assert reorder.locate("a", 0, 2) is not None
    assert reorder.locate("b", 0, 2) is not None
    assert reorder.locate("c", 0, 2) is None
    assert reorder.counts_of("a")["received"] == 2


# -- the file --------------------------------------------------------------------------------------


def settings(line: str) -> ReorderConfig:
    return parse(f"streams: {{default: {{reorder: {{{line}}}}}}}").streams["default"].reorder


def test_without_seq_allows_mixed_sources() -> None:
    config = settings("without_seq: by_time, miss_target: 1%")
    assert (config.numbered, config.is_mixed) == (True, True)
    assert not settings("without_seq: dead").is_mixed
    with pytest.raises(TopologyError, match="has no effect under rule `time`"):
        settings("rule: time, without_seq: by_time")


# -- whole replays ---------------------------------------------------------------------------------


def stream(reorder: str, *sources: str) -> str:
    """Return a stream whose sources are all expected, since MERGE may pass over unknown sources."""
    merge = f"{{max_wait: 9s, expected_sources: [{', '.join(sources)}]}}"
    waits = f"{{{reorder}, max_wait: 90ms}}"
    return f"{{reorder: {waits}, clock: {{unsynced: trust}}, merge: {merge}}}"


NUMBERED, TIMED = ("s0", "s2", "s4"), ("s1", "s3", "s5")
TWO = f"streams: {{n: {stream('rule: miss', *NUMBERED)}, t: {stream('rule: time', *TIMED)}}}"
ONE = f"streams: {{n: {stream('without_seq: by_time', *NUMBERED, *TIMED)}}}"


def recorded(rng: Random) -> list[dict[str, Any]]:
    """Return rows up to 60 ms late, of three sources with numbers, some lost, and three without."""
    rows: list[dict[str, Any]] = []
    for source in range(6):
        for number in range(40):
            ts = (1_000 + 10 * number + rng.randrange(9)) * MS
            row: dict[str, Any] = {
                "source": f"s{source}",
                "ts": ts,
                "arrival": ts + rng.randrange(60) * MS,
            }
            if source % 2 == 0:
                row["seq"] = number
                if rng.random() < 0.05:
                    continue
            rows.append(row)
            if rng.random() < 0.05 and source % 2 == 0:
                rows.append({**row, "arrival": row["arrival"] + 5 * MS})
    rows.sort(key=lambda row: row["arrival"])
    return [{**row, "payload": at} for at, row in enumerate(rows)]


def replayed(
    text: str, rows: list[dict[str, Any]], cut_at: int = 0, before: str | None = None
) -> Step:
    """Replay the rows with a restart at row `cut_at`; until then the topology is `before`."""
    topology = parse(before or text)
    reader = LineReader(topology.reading())
    replay: Any = Replay(topology)
    total = Step(0)
    for number, row in enumerate(rows, start=1):
        if number == cut_at:
            saved = replay.save()
            topology = parse(text)
            reader = LineReader(topology.reading())
            replay = Replay(topology)
            replay.restore(saved._replace(state=through_changelog(saved.state)))
        total.add(replay.on_inputs([reader.read(Row(number, row))]))
    total.add(replay.on_end())
    return total


def by_source(step: Step) -> dict[str, list[Any]]:
    said: dict[str, list[Any]] = {}
    for each in step.released:
        if each.kind == DATA:
            one = (each.value, each.seq, each.epoch, each.ref_time_ns, each.late)
            said.setdefault(each.source, []).append(one)
    for report in step.reports:
        what = "duplicate" if isinstance(report, Duplicate) else report.reason
        said.setdefault(_source(report), []).append((type(report).__name__, what))
    return said


@pytest.mark.slow
def test_replay_matches_two_streams() -> None:
    for seed in SEEDS[:15]:
        rng = Random(seed)
        rows = recorded(rng)
        two = [{**row, "stream": "n" if "seq" in row else "t"} for row in rows]
        mixed_said = by_source(replayed(ONE, rows))
        assert mixed_said == by_source(replayed(TWO, two)), f"seed {seed}"
        assert by_source(replayed(ONE, rows, rng.randrange(2, len(rows)))) == mixed_said
        assert not any(kind == "Late" for said in mixed_said.values() for kind, *_ in said)


@pytest.mark.slow
def test_without_seq_can_be_added_later() -> None:
    """Numbered sources keep their order, and sources without numbers begin."""
    numbered = f"streams: {{n: {stream('rule: miss', *NUMBERED, *TIMED)}}}"
    for seed in SEEDS[:15]:
        rng = Random(seed)
        rows = recorded(rng)
        at = rng.randrange(2, len(rows))
        said = by_source(replayed(ONE, rows, at, before=numbered))
        whole = by_source(replayed(ONE, rows))
        assert {name: said[name] for name in NUMBERED} == {name: whole[name] for name in NUMBERED}
        first = sum("seq" not in row for row in rows[: at - 1])
        assert sum(what == ("Malformed", "seq_missing") for what in said_of(said, TIMED)) == first
        values = [one[0] for one in said_of(said, TIMED) if one[0] != "Malformed"]
        assert sorted(values) == [row["payload"] for row in rows[at - 1 :] if "seq" not in row]


def said_of(said: dict[str, list[Any]], sources: tuple[str, ...]) -> list[Any]:
    return [one for source in sources for one in said.get(source, [])]


def test_stream_is_complete_after_lateness() -> None:
    marks = [each for each in replayed(ONE, recorded(Random(1))).released if not each.source]
    assert marks
    assert all(mark.complete_ns <= mark.ref_time_ns - 600_000 * MS for mark in marks)
