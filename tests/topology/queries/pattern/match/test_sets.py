"""AS SETS: all matches of an end event as one result.

Laws: sets agree with the single matches and with the oracle's matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    Content,
    Reader,
    World,
    anew,
    checked,
    content,
    contents,
    fed,
    in_step,
    restarted,
    taken,
)
from tests.topology.queries.pattern.generate import (
    TYPES,
    entry,
    lateness_ns,
    of_text,
    random_stream,
    shuffled,
)
from tests.topology.queries.pattern.oracle import oracle
from tests.topology.queries.pattern.unparse import unparse
from topology.base.result import UPDATE, MatchResult, MatchSetResult, Member, MemberRange, result_id
from topology.queries.pattern.compile import expression
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.ids import key_bytes
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Query

SEEDS = seeds_of_today(150)
PARTS = 5
COUNTS = ("", "", "", "+", "+", "{2,}")

parts = pytest.mark.parametrize("part", range(PARTS))


def random_set_query(rng: Random) -> Query:
    nodes = []
    for at in range(rng.randint(1, 4)):
        types = rng.sample(TYPES, rng.choice((1, 1, 2)))
        nodes.append(f"{'|'.join(types)}{rng.choice(COUNTS)} t{at}")
    conditions = ["[id]"] if rng.random() < 0.3 else []
    if rng.random() < 0.4:
        conditions.append(f"t{rng.randrange(len(nodes))}.x > {rng.choice((0, 1))}")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    has_groups = any("+" in node or "{" in node for node in nodes)
    matches = "MAXIMAL" if has_groups else rng.choice(("MAXIMAL", "ALL"))
    emit = rng.choice(("EAGER", "EAGER", "FINAL", "SLACK"))
    return parse_query(
        f"QUERY q PATTERN SEQ({', '.join(nodes)}) {where} WITHIN {rng.choice((1, 3, 6, 30))} ns"
        f" USING skip_till_any MATCHES {matches} AS SETS LIMIT 1000000 EMIT {emit}"
        f" {rng.choice(('', 'TIES BY KEY'))} UNCERTAIN IGNORE"
    )


class SetWorld(World):
    """A world whose query is run for single matches and for sets."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = Random(seed)
        asked = random_set_query(rng)
        check(asked)
        stream = random_stream(rng)
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.3, 0.9)), rng.choice((0.0, 0.2)))
        super().__init__(seed, Compiled(replace(asked, sets=False)), stream, arrivals)
        self.sets = Compiled(asked)
        self.behind_ns = rng.choice((lateness_ns(arrivals), 1 << 40))


def worlds(part: int) -> Iterator[SetWorld]:
    return map(SetWorld, SEEDS[part::PARTS])


class SetReader:
    """A reader of sets that expands them, and asserts that revisions follow each other."""

    def __init__(self, world: SetWorld) -> None:
        self._query = world.query
        self.standing: dict[str, MatchSetResult] = {}
        self.matches: dict[str, dict[str, Content]] = {}
        self._revisions: Counter[str] = Counter()
        self._known: list[Entry] = []
        form = self._query.form
        self._partition = expression.partition(form.same) if form.same else None
        self._parts = form.alternatives[0].components
        self._own = {
            part.alias: expression.compile_own_test(part.own, part.alias) for part in self._parts
        }

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
        """Return the matches of a set by their definition, from the events of its ranges alone."""
        inside = {key for told in found.ranges for key in self._members(told, found)}
        last = found.ranges[-1].last
        end = (last.ref_time_ns, last.source, last.epoch, last.seq)
        entries = [anew(one) for one in self._known if one.key in inside]
        ended = [m for m in oracle(self._query.form, entries) if m.last.key == end]
        return {self._id(match): contents(self._query, [match])[0] for match in ended}

    def _id(self, match: Match) -> str:
        key = key_bytes(() if self._partition is None else self._partition(match.last) or ())
        prefix = b"%d:" % len(key) + key + self._query.form.fingerprint.encode()
        return result_id(prefix, self._query.ids.of(match))

    def expanded(self) -> dict[str, Content]:
        return {id_: content for found in self.matches.values() for id_, content in found.items()}


@pytest.mark.slow
@parts
def test_expanded_sets_are_single_matches(part: int) -> None:
    """Ids agree at every step, with late events, duplicates and a frontier that purges events."""
    for world in worlds(part):
        sets, singles = (Engine([it], emits_final=["q"]) for it in (world.sets, world.query))
        reader, single = SetReader(world), Reader()
        at_ns, step = 0, world.rng.choice((1, 1, 3))
        for number, one in enumerate([*world.arrivals, None]):
            at_ns += world.rng.choice((0, 1, 3))
            if one is not None:
                for engine in (sets, singles):
                    engine.on_time(at_ns - 1)  # Emit what was gathered without this event.
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
            told = {id_: content(found) for id_, found in single.standing.items()}
            assert reader.expanded() == told, world
        assert all(found.final for found in reader.standing.values())
        assert sorted(reader.expanded().values()) == world.wanted(), world
        assert sum(each.count for each in reader.standing.values()) == len(world.wanted())


@pytest.mark.slow
@parts
def test_restart_changes_nothing(part: int) -> None:
    for world in worlds(part):
        engines = [Engine([world.sets]), Engine([world.sets])]
        for _, told in in_step(engines, world.arrivals, world.behind_ns, world.rng):
            assert told[0] == told[1], world
            if world.rng.random() < 0.4:
                engines[1] = restarted(engines[1], [world.sets])


@pytest.mark.parametrize("seed", range(6))
def test_counts_match_single_matches(seed: int) -> None:
    """Streams are too long for the oracle, so the counts are compared with single matches."""
    rng = Random(seed)
    for _ in range(4):
        asked = replace(random_set_query(rng), where=None, emit="eager")
        asked = replace(asked, within_ns=rng.choice((5, 12)))
        stream = random_stream(rng, largest=80)
        queries = Compiled(asked), Compiled(replace(asked, sets=False))
        engines = [Engine([query]) for query in queries]
        counts, single = Counter[Member](), Counter[Member]()
        for _, (sets, singles) in in_step(engines, shuffled(rng, stream, 0.3, 0.0)):
            for found in sets:
                assert isinstance(found, MatchSetResult)
                counts[found.ranges[-1].last] = found.count
            for made in singles:
                assert isinstance(made, MatchResult)
                single[made.members[-1]] += {"emit": 1, "retract": -1}.get(made.op, 0)
        assert +counts == +single, unparse(asked)


def sets_of(text: str, arrivals: Sequence[Entry]) -> list[MatchSetResult]:
    told = taken(fed([checked(text)], arrivals))
    return [found for found in told if isinstance(found, MatchSetResult)]


def ranges(found: MatchSetResult) -> list[tuple[str, int, int, int]]:
    return [(r.alias, r.size, r.first.ref_time_ns, r.last.ref_time_ns) for r in found.ranges]


ABC = "PATTERN SEQ(A a, B b, C c) WITHIN 10 ns USING skip_till_any MATCHES ALL AS SETS"


def test_late_event_joins_later_sets() -> None:
    late = entry("B", 4, 9)
    told = sets_of(ABC, [*of_text("a1 b2 a3 c5 b6 c7"), late])
    assert [(found.op, found.revision, found.count) for found in told] == [
        ("emit", 0, 1), ("emit", 0, 3), ("update", 1, 3), ("update", 1, 5),
    ]  # fmt: skip
    assert ranges(told[1]) == [("a", 2, 1, 3), ("b", 2, 2, 6), ("c", 1, 7, 7)]
    assert ranges(told[2]) == [("a", 2, 1, 3), ("b", 2, 2, 4), ("c", 1, 5, 5)]
    joined = [(r.alias, r.size, r.first.seq) for r in told[2].joined]
    assert joined == [("a", 1, 2), ("b", 1, 9)]  # a3 had no b after it.
    assert [found.id for found in told[:2]] == [found.id for found in told[2:]]


def test_huge_counts_are_exact() -> None:
    arrivals = [entry("ABCD"[at // 300], at, at) for at in range(1200)]
    abcd = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 s USING skip_till_any MATCHES ALL AS SETS"
    told = sets_of(abcd, arrivals)
    assert sum(found.count for found in told) == 300**4


def test_added_query_counts_later_starts() -> None:
    other = checked("QUERY other PATTERN SEQ(A a, B b, C c) WITHIN 10 ns")
    engine = fed([other], of_text("a1 b2"))
    both = restarted(engine, [other, checked(f"QUERY added {ABC}")])
    for one in of_text("x1 x2 a3 b4 c5")[2:]:
        both.accept(one, 0)
    (found,) = [found for found in taken(both) if isinstance(found, MatchSetResult)]
    assert (found.count, found.start_ns) == (1, 3)
