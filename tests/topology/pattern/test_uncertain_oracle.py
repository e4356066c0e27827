"""Laws and examples of uncertain order: certain ⊆ oracle(world) ⊆ possible, in every world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.generate import dice, of_text, random_query, random_stream
from tests.topology.pattern.oracle import Binding, binding_of, oracle
from tests.topology.pattern.true_times import worlds
from tests.topology.pattern.uncertain_oracle import Unsuited, possible_and_certain
from topology.pattern.language.parse import parse_query
from topology.pattern.match.match import Match
from topology.pattern.tree.normal_form import NormalForm, normalise
from topology.pattern.tree.syntax import Matches, Query, Strategy

SEEDS = seeds_of_today(400)
UNIT_NS = 4

Mode = tuple[Strategy, Matches]
ANY: Mode = ("any", "all")
CONTIGUOUS: tuple[Mode, ...] = (("next", "all"), ("strict", "all"))


def labels(form: NormalForm, matches: Iterable[Match]) -> set[Binding]:
    """What is in them, whatever the order inside a group."""
    return {binding_of(form, match) for match in matches}


def suited(rng: Random) -> Query:
    """Any steps and all shapes, or steps of singles in a row."""
    free = rng.random() < 0.5
    query = random_query(
        rng,
        [ANY] if free else CONTIGUOUS,
        conditions=rng.random() < 0.5,
        groups=free,
        partitions=False,
        skips=["none"],
    )
    return replace(query, ties="strict")


def test_every_world_lies_between() -> None:
    """And without errors there is one, and it is that of the oracle."""
    seen: Counter[str] = Counter()
    for seed, rng in dice(SEEDS):
        query = suited(rng)
        query = replace(query, within_ns=query.within_ns * UNIT_NS)
        form, errors = normalise(query), rng.choice(((0,), (0, 0, 1, 2, 4, 6), (0, 0, 1, 2, 4, 6)))
        stream = random_stream(rng, 6, errors=errors, types="AB", unit_ns=UNIT_NS)
        try:
            possible, certain = possible_and_certain(form, stream)
        except Unsuited:
            seen["unsuited"] += 1
            continue
        some, all_ = labels(form, possible), labels(form, certain)
        assert all_ <= some
        assert errors != (0,) or some == all_
        seen["certain"] += bool(all_)
        seen["uncertain"] += bool(some - all_)
        for world in worlds(rng, stream, 12, apart=True):
            true = labels(form, oracle(form, world))
            assert all_ <= true <= some, (seed, world)
            seen["decided"] += bool(true - all_)
    assert min(seen["certain"], seen["uncertain"], seen["decided"]) > 2, seen


def grades(pattern: str, events: str, options: str) -> str:
    form = normalise(parse_query(f"PATTERN {pattern} WITHIN 10 ns {options}"))
    possible, certain = possible_and_certain(form, of_text(events))
    sure = labels(form, certain)

    def shown(match: Match) -> str:
        name = "".join(f"{one.type.lower()}{one.time_ns}" for _, one in match.labelled())
        return name if labels(form, [match]) <= sure else f"{name}?"

    return " ".join(sorted(shown(match) for match in possible))


NEXT = "USING skip_till_next MATCHES ALL"
STRICT = "USING strict MATCHES ALL"


@pytest.mark.parametrize(
    ("pattern", "options", "graded"),
    [
        # a gap of exactly both errors may be a tie; the other way round it is none
        ("SEQ(A, B)", "", {"a10~1 b13~1": "a10b13", "a10~1 b12~1": "a10b12?"}),
        ("SEQ(A, B)", "", {"a11~1 b10~1": "b10a11?", "a12~1 b10~1": ""}),
        # neighbours may each be possible where the chain is not
        ("SEQ(A, B, C)", "", {"a10~0 b8~4 c9~2": "b8c9a10?", "a12~0 b8~5 c9~3": ""}),
        # window
        ("SEQ(A, B)", "", {"a0~1 b9~0": "a0b9", "a0~1 b10~0": "a0b10?", "a0~1 b11~0": "a0b11?"}),
        ("SEQ(A, B)", "", {"a0~1 b12~0": ""}),
        # negation
        ("SEQ(A, !N, B)", "", {"a1 n5~1 b9": "", "a1 n5~4 b9": "a1b9?", "a1 n9~0 b9": "a1b9"}),
        ("SEQ(A, !N)", "", {"a1 n12~1": "a1?", "a1 n13~1": "a1"}),
        ("SEQ(!N, A)", "", {"n1~1 a12": "a12?", "n3~1 a12": ""}),
        ("SEQ(A, !N FOR 5 ns)", "", {"a1 n7~1": "a1", "a1 n6~1": "a1?", "a1 n4~1": ""}),
        ("SEQ(!N FOR 5 ns, A)", "", {"n5~1 a10": "a10?"}),
        ("SEQ(A, !N FOR 5 ns, B)", "", {"a1~1 b6": "a1b6?"}),
        ("SEQ(A, AND(C, !N FOR 5 ns), !M FOR 3 ns)", "", {"a1 c3 m8~1": "a1c3?"}),  # in (6, 9)
        ("SEQ(A, AND(C, !N FOR 5 ns), !M FOR 3 ns)", "", {"a1 c3 m7": "", "a1 c3 m5~1": "a1c3"}),
        ("SEQ(A, AND(C, !N FOR 5 ns), !M FOR 3 ns)", "", {"a1~1 c3 m6": "a1c3?"}),
        # contiguity
        ("SEQ(A, B)", NEXT, {"a1 b4~1 b6~0": "a1b4", "a1 b4~2 b6~1": "a1b4? a1b6?"}),
        ("SEQ(A, B)", STRICT, {"a1 c4~2 b6~1": "a1b6?", "a1 c4~1 b6~0": ""}),
        ("SEQ(A, B)", STRICT, {"a1 b6~0 c8~1": "a1b6"}),
        # groups
        ("SEQ(A+, B)", "", {"a1~2 a2~2 b9": "a1a2b9 a1b9 a2b9"}),
        ("SEQ(A+ a[], B) WHERE a[1].seq = 0", "", {"a1~2 a2~2 b9": "a1a2b9? a1b9"}),
        ("SEQ(A a, B b) WHERE a.time > 0 ns", "", {"a1~2 b9": "a1b9?"}),
        ("AND(A, B)", "", {"a10~1 b10~3": "a10b10"}),
    ],
)  # fmt: skip
def test_rules(pattern: str, options: str, graded: dict[str, str]) -> None:
    for events, grade in graded.items():
        assert grades(pattern, events, options or "USING skip_till_any MATCHES ALL") == grade
