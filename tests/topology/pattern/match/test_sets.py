"""AS SETS: all matches of an end event as one result, against the single matches and the oracle."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import Content, Reader, anew, contents, taken
from tests.topology.pattern.generate import (
    TYPES,
    entry,
    lateness_ns,
    of_text,
    random_stream,
    shuffled,
)
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.unparse import unparse
from topology.model.result import (
    UPDATE,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    result_id,
)
from topology.pattern.compile import expression
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.ids import spelled_key
from topology.pattern.match.match import Match
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.errors import QueryRefused
from topology.pattern.tree.syntax import (
    UNBOUNDED,
    And,
    Compare,
    Constant,
    EventNode,
    Expr,
    Item,
    Query,
    Ref,
    Same,
    Seq,
)

SEEDS = seeds_of_today(150)
PARTS = 5
SHAPES = ((1, 1), (1, 1), (1, 1), (1, UNBOUNDED), (1, UNBOUNDED), (2, UNBOUNDED))

parts = pytest.mark.parametrize("part", range(PARTS))


def random_set_query(rng: Random) -> Query:
    nodes = []
    for at in range(rng.randint(1, 4)):
        types = tuple(rng.sample(TYPES, rng.choice((1, 1, 2))))
        nodes.append(EventNode(types, f"t{at}", *rng.choice(SHAPES)))
    conditions: list[Expr] = [Same((("id",),))] if rng.random() < 0.3 else []
    if rng.random() < 0.4:
        alias = rng.choice(nodes).alias
        conditions.append(Compare(">", Ref(alias, ("x",)), Constant(rng.choice((0, 1)))))
    has_groups = any(node.is_group for node in nodes)
    return Query(
        node=Seq(tuple(map(Item, nodes))),
        within_ns=rng.choice((1, 3, 6, 30)),
        name="q",
        where=And(tuple(conditions)) if len(conditions) > 1 else next(iter(conditions), None),
        strategy="any",
        matches="maximal" if has_groups else rng.choice(("maximal", "all")),
        limit=1_000_000,
        sets=True,
        emit=rng.choice(("eager", "eager", "final", "slack")),
        ties=rng.choice(("strict", "key")),
        uncertain="ignore",
    )


class World:
    """A query in both forms, and a stream as it arrives."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = Random(seed)
        asked = random_set_query(rng)
        check(asked)
        self.seed = seed
        self.sets = Compiled(asked)
        self.singles = Compiled(dataclasses.replace(asked, sets=False))
        stream = random_stream(rng)
        self.stream = stream
        self.arrivals = shuffled(rng, stream, rng.choice((0.0, 0.3, 0.9)), rng.choice((0.0, 0.2)))
        self.behind_ns = rng.choice((lateness_ns(self.arrivals), 1 << 40))

    def __repr__(self) -> str:
        return f"seed {self.seed}\n{unparse(self.sets.query)}\n{self.stream}\n{self.arrivals}"


def worlds(part: int) -> Iterator[World]:
    return map(World, SEEDS[part::PARTS])


class SetReader:
    """Believes sets, makes the matches that they say, and asserts that words follow each other."""

    def __init__(self, world: World) -> None:
        self._query = world.singles
        self.standing: dict[str, MatchSetResult] = {}
        self.matches: dict[str, dict[str, Content]] = {}
        self._revisions: Counter[str] = Counter()
        self._known: list[Entry] = []
        form = self._query.form
        self._partition = expression.partition(form.same) if form.same else None
        self._parts = form.alternatives[0].components
        self._own = {part.alias: expression.own(part.own, part.alias) for part in self._parts}

    def saw(self, one: Entry) -> None:
        if all(one.identity != known.identity for known in self._known):
            self._known.append(one)

    def read(self, findings: Sequence[object]) -> None:
        for found in findings:
            assert isinstance(found, MatchSetResult)
            assert found.revision == self._revisions[found.id]
            self._revisions[found.id] += 1
            assert found.op == ("emit" if found.revision == 0 else UPDATE)
            before = self.standing.get(found.id)
            assert before is None or not before.final
            self._check_joined(before, found)
            self.standing[found.id] = found
            self.matches[found.id] = self._expanded(found)
            assert found.count == len(self.matches[found.id])

    def _check_joined(self, before: MatchSetResult | None, found: MatchSetResult) -> None:
        assert before is not None or not found.joined
        for at, told in enumerate(found.ranges):
            now = self._members(told, found)
            assert told.size == len(now)
            if before is None:
                continue
            old = self._members(before.ranges[at], found)
            new = [m for run in found.joined if run.alias == told.alias
                   for m in self._members(run, found)]  # fmt: skip
            reached = [one for one in old if one not in new]
            assert sorted(reached + new) == now, "what was there and what joined is all there is"

    def _members(self, told: MemberRange, found: MatchSetResult) -> list[tuple[int, str, int, int]]:
        part = next(part for part in self._parts if part.alias == told.alias)
        low, high = (
            (one.ref_time_ns, one.source, one.epoch, one.seq) for one in (told.first, told.last)
        )
        return sorted(
            one.key
            for one in self._known
            if low <= one.key <= high
            and one.type in part.types
            and self._own[part.alias](one) is True
            and (self._partition is None or self._same_key(one, found))
        )

    def _same_key(self, one: Entry, found: MatchSetResult) -> bool:
        assert self._partition is not None
        last = found.ranges[-1].last
        end = next(each for each in self._known if each.identity == last[1:4])
        return self._partition(one) == self._partition(end)

    def _expanded(self, found: MatchSetResult) -> dict[str, Content]:
        """By the definition of a match, from the events of the ranges alone."""
        inside = {key for told in found.ranges for key in self._members(told, found)}
        last = found.ranges[-1].last
        end = (last.ref_time_ns, last.source, last.epoch, last.seq)
        entries = [anew(one) for one in self._known if one.key in inside]
        ended = [m for m in oracle(self._query.form, entries) if m.last.key == end]
        return {self._id(match): contents(self._query, [match])[0] for match in ended}

    def _id(self, match: Match) -> str:
        key = spelled_key(() if self._partition is None else self._partition(match.last) or ())
        prefix = b"%d:" % len(key) + key + self._query.form.fingerprint.encode()
        return result_id(prefix, self._query.ids.of(match))

    def expanded(self) -> dict[str, Content]:
        return {id_: content for found in self.matches.values() for id_, content in found.items()}


@parts
def test_expanded_the_sets_are_the_single_matches_at_every_moment(part: int) -> None:
    """With their ids; late events, copies and a frontier that lets go of events among them."""
    for world in worlds(part):
        sets, singles = (Engine([it], emits_final=["q"]) for it in (world.sets, world.singles))
        reader, single = SetReader(world), Reader()
        at_ns, step = 0, world.rng.choice((1, 1, 3))
        for number, one in enumerate([*world.arrivals, None]):
            at_ns += world.rng.choice((0, 1, 3))
            if one is not None:
                for engine in (sets, singles):
                    engine.on_time(at_ns - 1)  # what was gathered is told without this event
                reader.read(taken(sets))
                single.read(taken(singles))
                words = {engine.accept(anew(one), at_ns) for engine in (sets, singles)}
                assert len(words) == 1
                reader.saw(one)
            for engine in (sets, singles):
                if one is None:
                    engine.end(at_ns)
                elif number % step == 0:
                    engine.advance(engine.clock_ns - world.behind_ns, at_ns)
            assert sets.retained == singles.retained
            reader.read(taken(sets))
            single.read(taken(singles))
            told = {i: contents_of(found) for i, found in single.standing.items()}
            assert reader.expanded() == told, world
        assert all(found.final for found in reader.standing.values())
        found = oracle(world.singles.form, map(anew, world.stream))
        assert sorted(reader.expanded().values()) == contents(world.singles, found), world
        assert sum(each.count for each in reader.standing.values()) == len(found)


def contents_of(found: MatchResult) -> Content:
    return tuple(sorted((m.alias, (m.source, m.epoch, m.seq)) for m in found.members))


@parts
def test_a_restart_is_not_seen(part: int) -> None:
    for world in worlds(part):
        calm, cut = Engine([world.sets]), Engine([world.sets])
        told: tuple[list[object], list[object]] = ([], [])
        for at_ns, one in enumerate(world.arrivals):
            for engine, heard in zip((calm, cut), told, strict=True):
                engine.accept(anew(one), at_ns)
                engine.advance(engine.clock_ns - world.behind_ns, at_ns)
                heard += taken(engine)
            if world.rng.random() < 0.4:
                state, kept = cut.snapshot(), [anew(each) for each in cut.entries()]
                cut = Engine([world.sets])
                cut.restore(state, kept)
        for engine, heard in zip((calm, cut), told, strict=True):
            engine.end(len(world.arrivals))
            heard += taken(engine)
        assert told[0] == told[1], world


@pytest.mark.parametrize("seed", range(6))
def test_counted_without_being_made_they_are_as_many(seed: int) -> None:
    """Longer streams than the oracle can look through, beside the single matches."""
    rng = Random(seed)
    for _ in range(4):
        asked = dataclasses.replace(random_set_query(rng), where=None, emit="eager")
        asked = dataclasses.replace(asked, within_ns=rng.choice((5, 12)))
        stream = random_stream(rng, largest=80)
        sets = Engine([Compiled(asked)])
        singles = Engine([Compiled(dataclasses.replace(asked, sets=False))])
        counts, single = Counter[Member](), Counter[Member]()
        for one in shuffled(rng, stream, 0.3, 0.0):
            for engine in (sets, singles):
                engine.accept(anew(one), 0)
            for found in taken(sets):
                assert isinstance(found, MatchSetResult)
                counts[found.ranges[-1].last] = found.count
            for made in taken(singles):
                assert isinstance(made, MatchResult)
                single[made.members[-1]] += {"emit": 1, "retract": -1}.get(made.op, 0)
        assert +counts == +single, unparse(asked)


def compiled(text: str) -> Compiled:
    asked = parse_query(text)
    check(asked, text)
    return Compiled(asked)


def sets_of(text: str, arrivals: Sequence[Entry]) -> list[MatchSetResult]:
    engine = Engine([compiled(text)])
    for one in arrivals:
        engine.accept(one, 0)
    return [found for found in taken(engine) if isinstance(found, MatchSetResult)]


def ranges(found: MatchSetResult) -> list[tuple[str, int, int, int]]:
    return [(r.alias, r.size, r.first.ref_time_ns, r.last.ref_time_ns) for r in found.ranges]


ABC = "PATTERN SEQ(A a, B b, C c) WITHIN 10 ns USING skip_till_any MATCHES ALL AS SETS"


def test_a_late_event_joins_the_set_of_each_end_behind_it() -> None:
    late = entry("B", 4, 9)
    told = sets_of(ABC, [*of_text("a1 b2 a3 c5 b6 c7"), late])
    assert [(found.op, found.revision, found.count) for found in told] == [
        ("emit", 0, 1), ("emit", 0, 3), ("update", 1, 3), ("update", 1, 5),
    ]  # fmt: skip
    assert ranges(told[1]) == [("a", 2, 1, 3), ("b", 2, 2, 6), ("c", 1, 7, 7)]
    assert ranges(told[2]) == [("a", 2, 1, 3), ("b", 2, 2, 4), ("c", 1, 5, 5)]
    joined = [(r.alias, r.size, r.first.seq) for r in told[2].joined]
    assert joined == [("a", 1, 2), ("b", 1, 9)]  # a3 had no b behind it
    assert [found.id for found in told[:2]] == [found.id for found in told[2:]]


def test_more_matches_than_anybody_could_make_are_counted() -> None:
    arrivals = [entry("ABCD"[at // 300], at, at) for at in range(1200)]
    abcd = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 s USING skip_till_any MATCHES ALL AS SETS"
    told = sets_of(abcd, arrivals)
    assert sum(found.count for found in told) == 300**4


def test_a_group_takes_all_between_its_neighbours() -> None:
    told = sets_of(
        "PATTERN SEQ(A a, B+ b[], C c) WITHIN 10 ns USING skip_till_any MATCHES MAXIMAL AS SETS",
        of_text("a1 b2 b3 a4 b5 c6"),
    )
    assert [(found.count, ranges(found)[1]) for found in told] == [(2, ("b", 3, 2, 5))]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("SEQ(A a, B b) WITHIN 9 s", "every step must be under"),
        ("SEQ(A a, NEXT B b) WITHIN 9 s USING skip_till_any", "every step must be under"),
        ("AND(A a, B b) WITHIN 9 s USING skip_till_any", "plain sequence"),
        ("OR(A a, B b) WITHIN 9 s USING skip_till_any", "plain sequence"),
        ("SEQ(A a, B? b, C c) WITHIN 9 s USING skip_till_any", "must not be optional"),
        ("SEQ(A a, !B, C c) WITHIN 9 s USING skip_till_any", "a negation must be tested"),
        ("SEQ(A a, B+ b, C c) WITHIN 9 s USING skip_till_any", "each subset of a group"),
        ("SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 s USING skip_till_any", "a condition between"),
        ("SEQ(A a, B b) WITHIN 9 s USING skip_till_any SKIP PAST LAST", "SKIP applies"),
        ("SEQ(A a, B b) WITHIN 9 s USING skip_till_any UNCERTAIN NOMINAL", "not graded"),
    ],
)
def test_what_is_no_set_is_refused_with_the_reason(pattern: str, why: str) -> None:
    text = f"PATTERN {pattern} MATCHES ALL AS SETS"
    with pytest.raises(QueryRefused) as refused:
        compiled(text)
    (error,) = refused.value.errors
    assert error.code == "E_SETS"
    assert why in error.message
    assert error.hint


def test_a_group_that_is_not_free_is_refused() -> None:
    text = "PATTERN SEQ(A a, B{1,3} b) WITHIN 9 s USING skip_till_any MATCHES MAXIMAL AS SETS"
    with pytest.raises(QueryRefused, match="all events between"):
        compiled(text)


def test_a_text_is_read_as_it_is_written() -> None:
    asked = parse_query(f"{ABC} LIMIT 7")
    assert asked.sets
    assert asked.limit == 7
    assert parse_query(unparse(asked)) == asked


def test_sets_is_a_name_everywhere_else() -> None:
    asked = parse_query(
        "PATTERN SEQ(Sets sets, B b) WHERE sets.sets > 1 WITHIN 1 s RETURN sets.x AS sets"
    )
    assert not asked.sets
    assert parse_query(unparse(asked)) == asked


def test_a_query_added_later_has_the_matches_that_start_later() -> None:
    other = compiled("QUERY other PATTERN SEQ(A a, B b, C c) WITHIN 10 ns")
    engine = Engine([other])
    for one in of_text("a1 b2"):
        engine.accept(one, 0)
    added = compiled(f"QUERY added {ABC}")
    both = Engine([other, added])
    both.restore(engine.snapshot(), [anew(one) for one in engine.entries()])
    for one in of_text("x1 x2 a3 b4 c5")[2:]:
        both.accept(one, 0)
    (found,) = [found for found in taken(both) if isinstance(found, MatchSetResult)]
    assert (found.count, found.start_ns) == (1, 3)
