"""Laws: walks that are followed give the same results and state as walks that are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.kit.places import Keeping
from tests.kit.runs import cut
from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import anew, compiled, restarted
from tests.topology.queries.pattern.generate import (
    TYPES,
    Conditions,
    Draft,
    Modes,
    lateness_ns,
    of_text,
    random_payload,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.queries.pattern.unparse import unparse
from topology.base.event import DATA, PASSED, WATERMARK, Event, copy_event
from topology.base.outcome import Step
from topology.base.ramp import make_ramp
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.tactics import followed
from topology.queries.pattern.operator import Pattern
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.run.run import Run
from topology.queries.pattern.settings import PatternQuery
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import And, Edge, Expr, Item, Query, Same, Seq

SEEDS = seeds_of_today(120)
PARTS = 2

MODES: Modes = (
    *(("next", "one"),) * 2,
    ("next", "all"),
    ("next", "best"),
    ("strict", "one"),
    ("strict", "best"),
    ("partition", "one"),
    ("strict", "all"),
)


def random_line(rng: Random) -> Query:
    strategy, matches = rng.choice(MODES)
    edges: tuple[Edge | None, ...] = (None,) if rng.random() < 0.7 else (None, "strict", "next")
    draft = Draft(rng, edges, groups=False)
    items = []
    for _ in range(rng.choice((2, 2, 3, 3, 4))):
        types = tuple(rng.sample(TYPES, rng.choice((1, 1, 2, 3))))
        node = draft.counted(1, 1, () if rng.random() < 0.04 else types, until=0)
        items.append(Item(node, rng.choice(edges)))
    where: list[Expr] = []
    if strategy == "partition" or rng.random() < 0.3:
        where.append(Same((("id",),)))
    maker = Conditions(rng, draft.nodes, ())
    where += [maker.plain() for _ in range(rng.choice((0, 0, 0, 1, 1)))]
    return Query(
        node=Seq(tuple(items)),
        within_ns=rng.choice((5, 10, 20, 40)),
        name="q",
        where=And(tuple(where)) if len(where) > 1 else where[0] if where else None,
        strategy=strategy,
        matches=matches,
        ties=rng.choice(("strict", "key")),
    )


def lines(part: int) -> Iterator[tuple[Random, Compiled]]:
    for rng in map(Random, SEEDS[part::PARTS]):
        query = Compiled(random_line(rng))
        if query.steps is not None:
            yield rng, query


class Pair:
    """An engine that takes the plain path where it can, and one that never does."""

    def __init__(self, queries: list[Compiled]) -> None:
        self.queries = queries
        self.plain, self.general = Engine(queries), Engine(queries, is_plain=False)

    def accept(self, entry: Entry, at_ns: int) -> None:
        words = [engine.accept(anew(entry), at_ns) for engine in (self.plain, self.general)]
        assert words[0] == words[1]

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        self.plain.advance(frontier_ns, at_ns)
        self.general.advance(frontier_ns, at_ns)

    def compare(self, *, state: bool) -> int:
        """Assert that both engines agree, and return the number of findings."""
        ours, others = Step(0), Step(0)
        self.plain.flush(ours)
        self.general.flush(others)
        assert ours == others
        assert self.plain.counts == self.general.counts
        assert self.plain.retained == self.general.retained
        assert self.plain.next_deadline_ns() == self.general.next_deadline_ns()
        if state:
            assert self.plain.snapshot() == self.general.snapshot()
            assert self.plain.changes() == self.general.changes()
        return len(ours.results)

    def restart(self) -> None:
        self.general = restarted(self.plain, self.queries, is_plain=False)
        self.plain = restarted(self.plain, self.queries)

    def runs(self) -> list[Run]:
        return list(self.plain.levels[0].runs())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("errors", "others"),
    [((0,), 0), ((0,) * 20 + (1, 2), 0), ((0,), 2)],
    ids=["sure", "unsure", "beside others"],
)
@pytest.mark.parametrize("part", range(PARTS))
def test_both_paths_agree(part: int, errors: tuple[int, ...], others: int) -> None:
    """Other queries run beside it, so an event concerns followed walks and other units.

    Both engines have the same findings and state.
    """
    told = followed_runs = 0
    for rng, query in lines(part):
        names = [f"q{n}" for n in range(rng.randint(min(1, others), others))]
        queries = [query, *(Compiled(replace(random_query(rng), name=name)) for name in names)]
        rng.shuffle(queries)
        largest = 30 if others else rng.choice((12, 40, 40))
        stream = random_stream(rng, largest=largest, errors=errors)
        disorder = rng.choice((0.0, 0.12, 0.7))
        arrivals = shuffled(rng, stream, disorder, copies=rng.choice((0.0, 0.2)))
        behind_ns = int(lateness_ns(arrivals) * rng.choice((1.0, 1.0, 0.5)))
        pair, at_ns = Pair(queries), 0
        try:
            for entry in arrivals:
                at_ns += rng.choice((0, 1, 3))
                pair.accept(entry, at_ns)
                told += pair.compare(state=rng.random() < 0.3)
                pair.advance(entry.time_ns - behind_ns, at_ns)
                told += pair.compare(state=rng.random() < 0.1)
                if rng.random() < 0.05:
                    pair.restart()
            followed_runs += sum(run.walks is not None for run in pair.runs())
            pair.advance(1 << 65, at_ns)
            pair.compare(state=True)
        except AssertionError as error:
            raise AssertionError(f"{unparse(query.query)}\n{stream}\n{arrivals}") from error
    assert told > len(SEEDS) // PARTS, "too little is found for a law"
    assert followed_runs > len(SEEDS) // PARTS // 4, "too little is followed for a law"


def operator_of(queries: list[Compiled], *, is_plain: bool, ordered: bool) -> Pattern:
    engine = Engine(queries, is_plain=is_plain, max_partitions=2, max_retained=15)
    settings = PatternQuery.model_construct(changes_for_ns=8, new_source_allowance_ns=2)
    return Pattern(engine, {"": settings}, ordered=ordered)


def input_of(rng: Random, *, ordered: bool) -> list[Event]:
    """Return events of queried and other types, mostly with exact times, some late.

    Watermarks come alone and as ramps, and accepted events have marks of MERGE.
    """
    found: list[Event] = []
    at_ns = watermark_ns = 0
    for seq in range(80):
        at_ns += rng.choice((0, 1, 1, 2))
        time_ns = at_ns + rng.choice((0, 0, 0, 0, -1, -3, -9, 3, 9))
        event = Event("default", rng.choice("st"), 0, seq, time_ns, at_ns, seq,
                      value=random_payload(rng), type=rng.choice("ABCDXYZ"))  # fmt: skip
        event.late = "" if time_ns >= watermark_ns else "merge"
        if not ordered and seq and rng.random() < 0.3:
            event.kind = PASSED
        event.error_ns = int(rng.random() < 0.005)
        found.append(event)
        if rng.random() < 0.1:
            again = copy_event(rng.choice([one for one in found if one.kind == DATA]))
            again.at_ns = again.arrival_ns = at_ns
            found.append(again)
        elif rng.random() < 0.1:
            beats = rng.choice((1, 1, 4))
            at_ns += beats
            watermark_ns = max(watermark_ns, at_ns - 3)
            watermark = Event("default", "", 0, 0, watermark_ns, at_ns, kind=WATERMARK)
            watermark.complete_ns = watermark_ns - rng.choice((0, 4))
            if beats > 1:
                make_ramp(watermark, at_ns - beats + 1, 1, watermark.complete_ns - beats + 1)
            found.append(watermark)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True], ids=["accepted", "ordered"])
def test_cuts_of_input_change_nothing(ordered: bool) -> None:
    told = 0
    for rng, query in lines(0):
        queries = [query]
        if rng.random() < 0.2:
            queries.append(Compiled(replace(random_query(rng), name="r")))
        events = input_of(rng, ordered=ordered)
        pair = [operator_of(queries, is_plain=p, ordered=ordered) for p in (True, False)]
        results: list[list[Any]] = []
        rests = []
        for operator in pair:
            copies, said, keeping = [copy_event(event) for event in events], [], Keeping()
            for batch in cut(copies, rng, (1, 2, 7, 30)):
                step = operator.on_batch(batch, batch[-1].at_ns)
                assert step.released == batch
                keeping.add(step)
                said += step.results
            step = operator.on_time(events[-1].at_ns + 3)
            keeping.add(step)
            said += step.results
            results.append(said)
            held = [(event.source, event.seq) for event in copies if event in keeping.events]
            rests.append((operator.snapshot(), operator.changes(), operator.figures(), held,
                          operator.next_deadline_ns()))  # fmt: skip
        assert results[0] == results[1], (unparse(query.query), events)
        assert rests[0] == rests[1], (unparse(query.query), events)
        told += len(results[0])
    assert told > len(SEEDS) // PARTS, "too little is found for a law"


@pytest.mark.parametrize(
    "options", ["", "USING skip_till_next MATCHES ALL", "USING strict", "TIES BY KEY"]
)
@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, B b)", "SEQ(A a, B b) WHERE a.x < b.x", "SEQ(A a, B b, B c) WHERE [k]"]
)
def test_plain_patterns_can_be_followed(pattern: str, options: str) -> None:
    assert compiled(pattern, options).steps is not None


def test_long_walk_leaves_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    if not followed.__file__.endswith(".py"):
        pytest.skip("compiled: the bound is bound early")
    monkeypatch.setattr(followed, "LOOKED_THROUGH", 5)
    pair = Pair([compiled("SEQ(A a, B b) WHERE a.x < b.x", within=90)])
    for at, entry in enumerate(of_text(" ".join(f"a{n} b{n + 1}" for n in range(1, 21, 2)))):
        pair.accept(anew(entry), at)
        assert [run.walks is not None for run in pair.runs()] == [at < 5]
        pair.compare(state=True)
