"""Law: MATCH_RECOGNIZE finds the matches of SQL's rules, in any order of arrival.

The oracle walks the rows of a partition in order. At each row it tries the pattern as a
backtracking regular expression, alternatives from left to right. A greedy count takes one more row
before it tries to end; a reluctant count first tries to end. The first try that succeeds is the
match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import current
from tests.topology.queries.pattern.generate import dice, entry
from topology.queries.pattern.language.check import check
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.sql.parse import parse_sql
from topology.queries.pattern.tree.errors import QueryRefused

SEEDS = seeds_of_today(150)
REFUSED = {"E_ALL_OPTIONAL", "E_ALIAS_UNKNOWN", "E_QUANT", "E_TOO_LARGE"}
"""Patterns that may be empty, a FIRST(A.x) without an A, groups that leave a choice after them,
and too many alternatives."""
Row = tuple[str, int]
"""A variable, and the place of the row that was taken for it."""


def _own(taken: Sequence[Row], name: str) -> list[int]:
    return [at for each, at in taken if each == name]


def _of_before(rows: Any, at: int, taken: Sequence[Row], name: str, holds: Any) -> bool:
    before = [rows[each][1] for each in _own(taken, name)]
    return bool(before) and bool(holds(rows[at][1], before))


def _of_first(rows: Any, at: int, taken: Sequence[Row], name: str) -> bool:
    first = [*_own(taken, "A"), *([at] if name == "A" else [])]
    return bool(first) and rows[at][1] <= rows[first[0]][1]


Condition = Callable[[Sequence[tuple[int, int]], int, Sequence[Row], str], bool]

CONDITIONS: dict[str, Condition] = {
    "x > 2": lambda rows, at, taken, name: rows[at][1] > 2,
    "x < 4": lambda rows, at, taken, name: rows[at][1] < 4,
    "x = 1": lambda rows, at, taken, name: rows[at][1] == 1,
    "x > PREV(x)": lambda rows, at, taken, name: at > 0 and rows[at][1] > rows[at - 1][1],
    "x >= LAST({name}.x, 1)": lambda rows, at, taken, name: _of_before(
        rows, at, taken, name, lambda mine, theirs: mine >= theirs[-1]
    ),
    "x <= FIRST(A.x)": _of_first,
    "COUNT({name}.x) < 3": lambda rows, at, taken, name: len(_own(taken, name)) < 2,
}
"""Conditions by text: whether a row may be taken for the variable, after those `taken`."""


@dataclass(frozen=True)
class Part:
    """A part of a pattern, which is taken `low` to `high` times.

    `kind` is a variable, `sequence`, `either` or `permute`.
    """

    kind: str
    parts: tuple[Part, ...] = ()
    low: int = 1
    high: int = 1
    reluctant: bool = False

    @property
    def text(self) -> str:
        inner = [part.text for part in self.parts]
        text = {
            "sequence": f"({' '.join(inner)})",
            "either": f"({' | '.join(inner)})",
            "permute": f"PERMUTE({', '.join(inner)})",
        }.get(self.kind, self.kind)
        if (self.low, self.high) == (1, 1):
            return text
        high = "" if self.high > 9 else self.high
        return f"{text}{{{self.low},{high}}}{'?' if self.reluctant else ''}"


class Tries:
    """A search for all ways through the pattern from one row, preferred ways first."""

    def __init__(self, rows: Sequence[tuple[int, int]], defined: dict[str, str], within: int):
        self.rows = rows
        self.defined = defined
        self.within = within
        self.start = 0

    def first(self, part: Part, start: int) -> list[Row] | None:
        self.start = start
        return next((taken for taken in self.of(part, []) if taken), None)

    def of(self, part: Part, taken: list[Row]) -> Iterator[list[Row]]:
        yield from self.times(part, 0, taken)

    def times(self, part: Part, count: int, taken: list[Row]) -> Iterator[list[Row]]:
        if part.reluctant and count >= part.low:
            yield taken
        if count < part.high:
            for longer in self.once(part, taken):
                if len(longer) > len(taken):
                    yield from self.times(part, count + 1, longer)
                elif count < part.low:
                    yield longer
        if not part.reluctant and count >= part.low:
            yield taken

    def once(self, part: Part, taken: list[Row]) -> Iterator[list[Row]]:
        if part.kind == "sequence":
            yield from self.in_turn(part.parts, taken)
        elif part.kind == "either":
            for each in part.parts:
                yield from self.of(each, taken)
        elif part.kind == "permute":
            for order in permutations(part.parts):
                yield from self.in_turn(order, taken)
        else:
            at = self.start + len(taken)
            if at < len(self.rows) and self.rows[at][0] - self.rows[self.start][0] < self.within:
                text = self.defined.get(part.kind)
                if text is None or CONDITIONS[text](self.rows, at, taken, part.kind):
                    yield [*taken, (part.kind, at)]

    def in_turn(self, parts: Sequence[Part], taken: list[Row]) -> Iterator[list[Row]]:
        if not parts:
            yield taken
            return
        for longer in self.of(parts[0], taken):
            yield from self.in_turn(parts[1:], longer)


def found_by_rule(tries: Tries, pattern: Part, *, past_last: bool) -> list[list[Row]]:
    found, start = [], 0
    while start < len(tries.rows):
        match = tries.first(pattern, start)
        if match is not None:
            found.append(match)
        start = match[-1][1] + 1 if match is not None and past_last else start + 1
    return found


def may_be_empty(part: Part) -> bool:
    inner = [may_be_empty(each) for each in part.parts]
    return part.low == 0 or (bool(inner) and (any if part.kind == "either" else all)(inner))


def random_part(rng: Random, depth: int) -> Part:
    kind = rng.choice(("A", "B", "C") if depth == 0 else ("A", "B", "sequence", "either"))
    low, high = rng.choice(((1, 1), (1, 1), (0, 1), (1, 99), (0, 99), (2, 3), (1, 2)))
    reluctant = low != high and rng.random() < 0.4
    if len(kind) == 1:
        return Part(kind, (), low, high, reluctant)
    parts = tuple(random_part(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if high > 9 or rng.random() < 0.6 or any(map(may_be_empty, parts)):
        return Part(kind, parts)
    return Part(kind, parts, low, high, reluctant)


def random_permuted(rng: Random) -> Part:
    if rng.random() < 0.5:
        return Part(rng.choice("ABC"))
    return Part("sequence", tuple(random_part(rng, 0) for _ in range(2)))


def random_pattern(rng: Random) -> Part:
    if rng.random() < 0.15:
        first = Part("permute", tuple(random_permuted(rng) for _ in range(2)))
    else:
        first = random_part(rng, 1)
    return Part("sequence", (first, *(random_part(rng, 1) for _ in range(rng.randint(1, 2)))))


def text_of(pattern: Part, defined: dict[str, str], within: int, *, past_last: bool) -> str:
    skip = "PAST LAST ROW" if past_last else "TO NEXT ROW"
    named = {name: text.format(name=name) for name, text in defined.items() if name in pattern.text}
    define = ", ".join(f"{name} AS {text}" for name, text in named.items())
    return (
        f"MATCH_RECOGNIZE (AFTER MATCH SKIP {skip} PATTERN {pattern.text}"
        f" WITHIN INTERVAL '{within}' SECOND{' DEFINE ' if define else ''}{define})"
    )


def accepted(text: str) -> Compiled | None:
    """Return the query, or None if it is refused for a known reason."""
    try:
        query = parse_sql(text)
        check(query, params={})
    except QueryRefused as refused:
        if {error.code for error in refused.errors} <= REFUSED:
            return None
        raise
    return Compiled(query)


def found_by_engine(query: Compiled, rows: Sequence[tuple[int, int]], rng: Random) -> list[Any]:
    events = [entry("T", time * 10**9, n, {"x": x}) for n, (time, x) in enumerate(rows)]
    reader = current(query, rng.sample(events, len(events)))
    return sorted(
        sorted((member.seq, member.alias) for member in result.members)
        for result in reader.standing.values()
    )


@pytest.mark.slow
def test_engine_finds_what_sql_finds() -> None:
    seen: Counter[str] = Counter()
    for seed, rng in dice(SEEDS):
        pattern, within = random_pattern(rng), rng.randint(3, 8)
        defined = {name: rng.choice([*CONDITIONS]) for name in "ABC" if rng.random() < 0.7}
        past_last = rng.random() < 0.6
        text = text_of(pattern, defined, within, past_last=past_last)
        query = accepted(text)
        if query is None:
            seen["refused"] += 1
            continue
        for _ in range(3):
            rows = [(at, rng.randint(0, 5)) for at in range(rng.randint(4, 9))]
            tries = Tries(rows, defined, within)
            expected = sorted(
                sorted((at, name) for name, at in match)
                for match in found_by_rule(tries, pattern, past_last=past_last)
            )
            mine = found_by_engine(query, rows, rng)
            assert mine == expected, f"seed {seed}: {text}\n{rows}"
            seen["matches"] += len(mine)
            seen["empty"] += not mine
    assert seen["matches"] > len(SEEDS)
    assert seen["refused"] < len(SEEDS) // 2, seen
