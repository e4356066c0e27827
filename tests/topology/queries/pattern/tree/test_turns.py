"""Counts of groups, WITHIN on a step, and patterns of optional parts alone, in any order of
arrival.

Laws compare with the same query without the addition, if there is one, and with `Judge`. It tries
all choices of events and checks the sentences of the manual on each, without the normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    anew,
    compiled,
    contents,
    current,
    in_any_order,
    times,
)
from tests.topology.queries.pattern.generate import (
    BEST,
    dice,
    of_text,
    random_query,
    random_stream,
    shuffled,
    with_eager_turns_in_and,
)
from tests.topology.queries.pattern.oracle import oracle
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.normal_form import MAX_ALTERNATIVES
from topology.queries.pattern.tree.partial_order import size
from topology.queries.pattern.tree.syntax import CountedNode, EventNode, Item, Seq

SEEDS = seeds_of_today(300)
FREE = "USING skip_till_any MATCHES ALL"

EXAMPLES = [
    # Pattern, options, events, and the matches by the times of their events.
    ("SEQ(A a, SEQ(B b, C c){2}, D d)", "", "a1 b2 c3 b4 c5 d6", "1-2-3-4-5-6"),
    ("SEQ(A a, SEQ(B b, C c){1,3}, D d)", "", "a1 b2 c3 b4 d5 c6 d7", "1-2-3-5"),  # Ends at d5.
    ("SEQ(A a, SEQ(B b, C c){1,3}, D d)", "", "a1 b2 c3 b4 c5 d6", "1-2-3-4-5-6"),
    ("SEQ(A a, SEQ(B b, C c){0,2})", "MATCHES BEST", "a1 b2 c3 b4 c5", "1-2-3-4-5"),
    ("SEQ(A a, SEQ(B b, C c)?, D d)", "MATCHES ALL", "a1 b2 c3 d4", "1-2-3-4 1-4"),
    ("SEQ(A a, SEQ(B b, C c){1,2} LOOP STRICT)", "MATCHES ALL", "a1 b2 c3 d4 b5 c6", "1-2-3"),
    ("SEQ(A a, AND(B b, C c){2}, D d)", "", "a1 c2 b3 b4 c5 d6", "1-2-3-4-5-6"),
    ("SEQ(A a, OR(B b, C c){2}, D d)", "", "a1 c2 b3 d6", "1-2-3-6"),
    ("SEQ(SEQ(B b, !D, C c){2})", "", "b1 c2 d3 b4 c5", "1-2-4-5"),
    ("SEQ(B b, C c){2}", "SKIP TO LAST b", "b1 c2 b3 c4 b5 c6", "1-2-3-4 3-4-5-6"),
    ("SEQ(B b, C c){2}", "SKIP TO FIRST c", "b1 c2 b3 c4 b5 c6", "1-2-3-4 3-4-5-6"),
    ("SEQ(A a, SEQ(B b, SEQ(C c){1,2}){2}, D d)", "", "a1 b2 c3 c4 b5 c6 d7", "1-2-3-4-5-6-7"),
    ("SEQ(A a, B b WITHIN 2 ns)", "", "a1 b3", "1-3"),
    ("SEQ(A a, B b WITHIN 2 ns)", "", "a1 b4", ""),
    ("SEQ(A a, C? c, B b WITHIN 2 ns)", "MATCHES ALL", "a1 c2 b3", "1-2-3 1-3"),
    ("SEQ(AND(A a, C c), B b WITHIN 2 ns)", "", "a1 c4 b6", "1-4-6"),
    ("SEQ(AND(A a, C c), B b WITHIN 2 ns)", "", "a1 c4 b7", ""),
    ("SEQ(A a, B+ b[] WITHIN 2 ns, C c)", "", "a1 b3 b9 c10", "1-3-9-10"),
    ("SEQ(A a, SEQ(B b WITHIN 3 ns, C c){1,2})", "MATCHES BEST", "a1 b2 c3 b8 c9", "1-2-3"),
    ("SEQ(A a, NEXT SEQ(B b WITHIN 2 ns, C c))", "", "a1 b4 c5", ""),
    ("SEQ(A? a, B? b)", "MATCHES BEST SKIP PAST LAST", "a1 b2 b3", "1-2 3"),
    ("OR(A? a, SEQ(B b, C c))", "MATCHES ALL", "a1 b2 c3", "1 2-3"),
    # BEST prefers more in an AND with optional parts.
    ("SEQ(A a, AND(C c, SEQ(B b, D d)?), A e)", "MATCHES BEST", "a1 c2 b3 d4 a5", "1-2-3-4-5"),
    ("SEQ(A a, AND(SEQ(C c)?, SEQ(B b, D d)?), A e)", "MATCHES BEST", "a1 c2 b3 a5", "1-2-5"),
]


@pytest.mark.parametrize(("pattern", "options", "events", "found"), EXAMPLES)
def test_turns_have_expected_matches(pattern: str, options: str, events: str, found: str) -> None:
    assert in_any_order(compiled(pattern, options, within=50), of_text(events)) == {found}


VALUES = [
    ("b[-2].x = 1", "1-2-3-4-5-6"),
    ("b[3].x = 1", ""),
    ("count(turn) = 2", "1-2-3-4-5-6"),
    ("sum(c[].x) = 6", "1-2-3-4-5-6"),
    ("b[i].x > count(c[..i-1]) ", "1-2-3-4-5-6"),
    ("b.x <= c.x", ""),  # Each b is compared with each c.
]


@pytest.mark.parametrize(("condition", "found"), VALUES)
def test_condition_can_name_a_turn(condition: str, found: str) -> None:
    stream = of_text("a1=0 b2=1 c3=2 b4=3 c5=4 d6=5")
    pattern = f"SEQ(A a, SEQ(B b, C c){{2,3}} turn, D d) WHERE {condition}"
    assert times(current(compiled(pattern), stream), stream) == found


def test_until_reads_its_own_turn() -> None:
    stream = of_text("a1=0 b2=1 b3=9 c4=0 a5=8 b6=7 b7=9 c8=0")
    pattern = "SEQ(A a, SEQ(B+ b[] UNTIL (b.x - a.x > 5), C c){1,2}){2}"
    assert times(current(compiled(pattern), stream), stream) == "1-2-4-5-6-7-8"


def test_values_cover_all_turns() -> None:
    stream = of_text("a1=0 b2=1 c3=2 b4=3 c5=4 d6=5")
    pattern = "SEQ(A a, SEQ(B b, C c){1,3} turn, D d)"
    columns = "RETURN count(turn) AS n, b[last].x AS last, c.x AS cs, b[3].x AS third"
    (found,) = current(compiled(pattern, columns), stream).standing.values()
    assert found.values == {"n": 2, "last": 3, "cs": [2, 4], "third": None}
    (found,) = current(compiled(pattern), stream).standing.values()
    assert {alias: _xs(value) for alias, value in found.values.items()} == {
        "a": 0, "b": [1, 3], "c": [2, 4], "d": 5
    }  # fmt: skip
    assert [member.alias for member in found.members] == ["a", "b", "c", "b", "c", "d"]


def _xs(value: Any) -> Any:
    return [each["x"] for each in value] if isinstance(value, list) else value["x"]


# -- laws -------------------------------------------------------------------------------------


def _in_turns(node: Any) -> Any:
    """Return the node with bounded groups as counts of a SEQ of one event."""
    if isinstance(node, EventNode) and node.maximum > 1:
        once = replace(node, minimum=1, maximum=1, loop=None, greedy=False, until=None)
        return CountedNode(
            Seq((Item(replace(once, reluctant=False, loop_within_ns=None)),)),
            node.minimum,
            node.maximum,
            loop=node.loop,
            reluctant=node.reluctant,
        )
    return node.rebuilt([_in_turns(each) for each in node.children])


def _plain(node: Any) -> Any:
    if isinstance(node, EventNode) and node.is_group:
        return replace(
            node, maximum=max(node.minimum, 2), greedy=False, until=None, loop_within_ns=None
        )
    return node.rebuilt([_plain(each) for each in node.children])


def _waits_for_the_whole(group: Compiled) -> bool:
    """Return whether NEXT steps meet conditions on a group as a whole.

    Such a condition does not choose the events of a group. Turns come one by one, so there it
    decides which event is the first that fits.
    """
    return any(
        any(part.edge == "next" or part.loop == "next" for part in alternative.components)
        and any(predicate.whole for predicate in alternative.predicates)
        for alternative in group.form.alternatives
    )


def _apart(stream: Sequence[Entry]) -> list[Entry]:
    return [*{one.time_ns: one for one in stream}.values()]


def _has_turns(node: Any) -> bool:
    return isinstance(node, CountedNode) or any(map(_has_turns, node.children))


@pytest.mark.slow
def test_turns_of_one_event_match_group() -> None:
    """Law, with all conditions that a group can have, for ALL and BEST.

    Equal times are left out: such events may be in one group, but are no sequence.
    """
    compared = found = 0
    for seed, rng in dice(SEEDS):
        query = random_query(rng, (("next", "all"), ("any", "all"), ("strict", "all"), *BEST))
        if _has_turns(query.node) or query.skip_to:
            continue
        if query.matches == "all":  # SKIP takes one of equal ends by its place in the text.
            query = replace(query, skip="none")
        group = Compiled(replace(query, node=_plain(query.node)))
        node = _in_turns(group.query.node)
        if with_eager_turns_in_and(node) != node or size(node)[0] > MAX_ALTERNATIVES:
            continue
        turns = Compiled(replace(group.query, node=node))
        if turns.form.node == group.form.node or _waits_for_the_whole(group):
            continue
        stream = _apart(random_stream(rng, 9))
        wanted = contents(group, oracle(group.form, map(anew, stream)))
        assert contents(turns, oracle(turns.form, map(anew, stream))) == wanted, seed
        arrivals = shuffled(rng, stream, 0.5, copies=0.1)
        assert current(turns, arrivals).contents() == wanted, seed
        compared += 1
        found += bool(wanted)
    assert compared > len(SEEDS) // 8
    assert found > len(SEEDS) // 30


Chosen = dict[str, list[Entry]]
"""The events of a match by alias."""


@dataclass(frozen=True)
class Judge:
    """A pattern in words.

    Each of `shapes` is one way through it, as aliases in a row; their capitals are the types.
    `asked` are conditions as text and as functions.
    """

    pattern: str
    shapes: tuple[str, ...]
    asked: tuple[tuple[str, Callable[[Chosen], bool]], ...] = ()
    always: Callable[[Chosen], bool] = lambda _: True

    def found(self, stream: Sequence[Entry], within_ns: int, asked: Sequence[int]) -> list[Any]:
        tests = [self.always, *(self.asked[at][1] for at in asked)]
        return sorted(
            tuple(sorted((alias, e.identity) for alias, each in chosen.items() for e in each))
            for chosen in self._choices(stream, within_ns)
            if all(test(chosen) for test in tests)
        )

    def _choices(self, stream: Sequence[Entry], within_ns: int) -> Iterator[Chosen]:
        for shape in self.shapes:
            for events in combinations(stream, len(shape)):
                kinds = [one.type for one in events]
                moments = [one.time_ns for one in events]
                if kinds != [alias.upper() for alias in shape] or moments != sorted({*moments}):
                    continue
                if moments[-1] - moments[0] <= within_ns:
                    chosen: Chosen = {}
                    for alias, event in zip(shape, events, strict=True):
                        chosen.setdefault(alias, []).append(event)
                    yield chosen


def _x(chosen: Chosen, alias: str) -> list[int]:
    return [one.payload["x"] for one in chosen.get(alias, ())]


def _t(chosen: Chosen, alias: str) -> list[int]:
    return [one.time_ns for one in chosen.get(alias, ())]


def _both(chosen: Chosen, test: Callable[[int, int], bool]) -> bool:
    return all(test(b, c) for b, c in zip(_x(chosen, "b"), _x(chosen, "c"), strict=True))


TURNS = Judge(
    "SEQ(A a, SEQ(B b, C c){0,2} t, D d)",
    ("ad", "abcd", "abcbcd"),
    (
        ("b[i].x >= b[i-1].x", lambda m: _x(m, "b") == sorted(_x(m, "b"))),
        ("b[i].x <= c[i].x", lambda m: _both(m, lambda b, c: b <= c)),
        ("b.x <= c.x", lambda m: all(b <= c for b in _x(m, "b") for c in _x(m, "c"))),
        ("b.x != 2", lambda m: 2 not in _x(m, "b")),
        ("c[last].x = d.x", lambda m: _x(m, "c")[-1:] in ([], _x(m, "d"))),
        ("b[first].x > a.x", lambda m: all(b > _x(m, "a")[0] for b in _x(m, "b")[:1])),
        ("count(t) != 1", lambda m: len(_x(m, "b")) != 1),
        ("sum(c[].x) < 4", lambda m: sum(_x(m, "c")) < 4),
        ("coalesce(b.x, 1) = 1", lambda m: {*_x(m, "b")} <= {1}),
        ("c[i].x > b[i+1].x", lambda m: len(_x(m, "b")) < 2 or _x(m, "c")[0] > _x(m, "b")[1]),
    ),
)


def _near(chosen: Chosen) -> bool:
    row = [*_t(chosen, "a"), *_t(chosen, "c"), *_t(chosen, "d"), *_t(chosen, "b")]
    ds = len(_t(chosen, "d"))
    limits = [3, 3, *[2] * (ds - 1), *[2] * len(_t(chosen, "b"))]
    return all(b - a <= at for a, b, at in zip(row[:-1], row[1:], limits, strict=True))


STEPS = Judge(
    "SEQ(A a, C c WITHIN 3 ns, D{1,3} d[] LOOP WITHIN 2 ns WITHIN 3 ns, B? b WITHIN 2 ns)",
    ("acd", "acdd", "acddd", "acdb", "acddb", "acdddb"),
    always=_near,
)
EMPTY = Judge("SEQ(A? a, B? b, C? c)", ("a", "b", "c", "ab", "ac", "bc", "abc"))


@pytest.mark.slow
@pytest.mark.parametrize("judge", [TURNS, STEPS, EMPTY], ids=["turns", "steps", "empty"])
def test_matches_follow_the_manual(judge: Judge) -> None:
    found = 0
    for seed, rng in dice(SEEDS):
        asked = rng.sample(range(len(judge.asked)), min(len(judge.asked), rng.randint(0, 2)))
        where = " AND ".join(judge.asked[at][0] for at in asked)
        pattern = f"{judge.pattern} WHERE {where}" if where else judge.pattern
        within_ns = rng.randint(3, 12)
        apart = _apart(random_stream(rng, 11))
        stream = [Entry(one.event, {"x": rng.randint(0, 3)}) for one in apart]
        expected = judge.found(stream, within_ns, asked)
        query = compiled(pattern, FREE, within=within_ns)
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.5)), copies=0.1)
        assert current(query, arrivals).contents() == expected, (seed, pattern)
        found += bool(expected)
    assert found > len(SEEDS) // 30
