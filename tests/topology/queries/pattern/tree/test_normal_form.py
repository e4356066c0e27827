"""Examples of normal forms: alternatives, order, gaps, places of conjuncts, fingerprints.

A pattern that is too large is refused before it is written out.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.topology.queries.pattern.generate import random_query
from topology.queries.pattern.language.expression_text import expression_text
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.tree.normal_form import Alternative, NormalForm, normalise
from topology.queries.pattern.tree.partial_order import size, spread
from topology.queries.pattern.tree.syntax import Item, Seq
from topology.queries.pattern.tree.turns import Turns


def form(text: str, options: str = "") -> NormalForm:
    return normalise(parse_query(f"PATTERN {text} WITHIN 10 ns {options}"))


def order(alternative: Alternative) -> list[str]:
    """Return each component with those before it, like `c: a b`."""
    names = [part.alias for part in alternative.components]
    return [
        f"{part.alias}: {' '.join(names[k] for k in sorted(part.before))}".strip()
        for part in alternative.components
    ]


@pytest.mark.parametrize(
    ("pattern", "orders"),
    [
        ("AND(A a, B b)", [["a:", "b:"]]),
        ("SEQ(A a, AND(B b, SEQ(C c, D d)), E e)",
         [["a:", "b: a", "c: a", "d: a c", "e: a b c d"]]),
        ("SEQ(OR(A a, B b), OR(C c, D d))",
         [["a:", "c: a"], ["a:", "d: a"], ["b:", "c: b"], ["b:", "d: b"]]),
        ("AND(A a, OR(B b, SEQ(C c, D d)))", [["a:", "b:"], ["a:", "c:", "d: c"]]),
    ],
)  # fmt: skip
def test_pattern_has_ordered_alternatives(pattern: str, orders: list[list[str]]) -> None:
    found = form(pattern).alternatives
    assert [order(alternative) for alternative in found] == orders
    assert [alternative.number for alternative in found] == list(range(len(orders)))


def test_sequence_is_a_linear_alternative() -> None:
    texts = ("SEQ(A, SEQ(B, C+), D)", "AND(A, B)", "SEQ(A, AND(B, C))")
    assert [form(text).alternatives[0].is_linear for text in texts] == [True, False, False]


@pytest.mark.parametrize(
    ("pattern", "gaps"),
    [
        ("SEQ(A a, !N n, B b)", ["a ! b"]),
        ("SEQ(A a, B b, !N n)", ["b ! "]),
        ("SEQ(AND(A a, B b), !N n, AND(C c, D d))", ["a b ! c d"]),
        ("SEQ(A a, SEQ(!N n, B b), C c)", ["a ! b"]),
        ("SEQ(A a, SEQ(B b, !N n), C c)", ["b ! c"]),
        ("SEQ(A a, AND(SEQ(B b, !N n), C c), D d)", ["b ! d"]),
        ("AND(SEQ(B b, !N n), C c)", ["b ! "]),
    ],
)
def test_negation_has_its_neighbours(pattern: str, gaps: list[str]) -> None:
    alternative = form(pattern).alternatives[0]
    names = [part.alias for part in alternative.components]
    assert [
        f"{' '.join(names[k] for k in sorted(gap.left))} ! "
        f"{' '.join(names[k] for k in sorted(gap.right))}"
        for gap in alternative.blockers
    ] == gaps


def test_edges_default_to_the_strategy() -> None:
    text = "SEQ(A a, STRICT SEQ(B b, C+ c[] LOOP ANY), STRICT AND(D d, SEQ(ANY E e, F f)), !G)"
    parts = form(text, "USING skip_till_next").alternatives[0].components
    assert [(part.alias, part.edge, part.loop) for part in parts] == [
        ("a", "next", "next"),
        ("b", "strict", "next"),
        ("c", "next", "any"),
        ("d", "strict", "next"),
        ("e", "any", "next"),
        ("f", "next", "next"),
    ]
    by_partition = form("SEQ(A, B+) WHERE [id]", "USING partition")
    assert [part.loop for part in by_partition.alternatives[0].components] == ["strict"] * 2
    texts = ("SEQ(A, STRICT B) WHERE [id]", "SEQ(A, STRICT B)")
    assert [form(text).by_partition for text in texts] == [True, False]
    assert by_partition.by_partition
    assert not form("SEQ(A, B) WHERE [id]", "USING strict").by_partition


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("SEQ(A a, B b) WHERE [id, room]", ["id", "room"]),
        ("SEQ(A a, B b, C c) WHERE a.id = b.id AND b.id = c.id", ["id"]),
        ("SEQ(A a, B b, C c) WHERE a.id = b.id", []),
        ("SEQ(A a, B b, C c) WHERE a.id = b.id AND c.id = c.id", []),
        ("SEQ(A a, B b) WHERE a.id = b.other", []),
        ("SEQ(A a, B b) WHERE a.id = b.id OR a.x = 1", []),
        ("SEQ(A a, !N n, B b) WHERE a.id = b.id", []),
        ("SEQ(A a, !N n, B b) WHERE a.id = b.id AND n.id = b.id", ["id"]),
        ("SEQ(A a, B? b, C c) WHERE a.id = b.id AND b.id = c.id", []),
        ("SEQ(A a, B? b, C c) WHERE a.id = b.id AND a.id = c.id", ["id"]),
        ("SEQ(A a, B? b, !N n) WHERE a.id = b.id AND n.id = b.id", []),
        ("SEQ(A+ a[], B? b) WHERE a.id = b.id", []),
        ("SEQ(A+ a[], B b) WHERE a[1].id = b.id", []),
        ("SEQ(A a, OR(B b, C c)) WHERE a.id = b.id AND a.id = c.id", ["id"]),
        ("SEQ(A a, OR(B b, C c)) WHERE a.id = b.id", []),
        ("SEQ(A a, B b) WHERE a.pos.x = b.pos.x AND [id]", ["pos.x", "id"]),
        ("SEQ(A a, B) WHERE a.id = a.id", []),
    ],
)
def test_equivalence_gives_partition_key(text: str, same: list[str]) -> None:
    found = form(text)
    assert [".".join(path) for path in found.same] == same
    if same:
        asked = [part for one in found.alternatives for part in (*one.predicates, *one.blockers)]
        assert not any(getattr(part, "predicates", ()) for part in asked)


@pytest.mark.parametrize(
    ("pattern", "conjunct", "place"),
    [
        ("SEQ(A a, B b)", "a.x > a.y", "own a"),
        ("SEQ(A a, B b)", "a.x > b.x", "a b"),
        ("SEQ(A a, B b)", "1 = 2", ""),
        ("SEQ(A+ a[], B b)", "a[1].x > 1", "a"),
        ("SEQ(A+ a[], B b)", "a[2].x > 1", "a whole a"),
        ("SEQ(A+ a[], B b)", "a[last].x > b.x", "a b whole a"),
        ("SEQ(A+ a[], B b)", "a[i].x > sum(a[..i-1].x)", "a"),
        ("SEQ(A a, B b)", "count(a) = 1", "a"),
        ("SEQ(A a, B? b)", "b.x IS NULL", "own b; b, also if absent"),
        ("SEQ(A a, B? b)", "coalesce(b.x, 0) < a.x", "a b, also if absent"),
        ("SEQ(A a, !N n, B b)", "n.x > 1", "not n"),
        ("SEQ(A a, !N n, B b)", "n.x > a.x", "not n"),
        ("SEQ(A a, OR(B b, C c))", "b.x > a.x", "a b"),
        ("OR(C c, B b)", "b.x > 1", ""),
        ("OR(C c, B b)", "b.x IS NULL", ", also if absent"),
        ("SEQ(A a, B b)", "[id] OR a.x = 1", "a b"),
    ],
)
def test_conjunct_is_checked_at_its_place(pattern: str, conjunct: str, place: str) -> None:
    alternative = form(f"{pattern} WHERE {conjunct}").alternatives[0]
    names = [part.alias for part in alternative.components]
    places = [f"own {part.alias}" for part in alternative.components if part.own]
    places += [f"not {blocker.alias}" for blocker in alternative.blockers if blocker.predicates]
    for predicate in alternative.predicates:
        text = " ".join(names[k] for k in sorted(predicate.aliases))
        if predicate.whole:
            text += f" whole {' '.join(names[k] for k in sorted(predicate.whole))}"
        places.append(text if predicate.skips_absent else f"{text}, also if absent")
    assert "; ".join(places) == place


def test_branch_has_only_its_conjuncts() -> None:
    one, other = form("OR(C c, B b) WHERE b.x > 1 AND c.x > 2").alternatives
    assert [expression_text(expr) for expr in one.components[0].own] == ["c.x > 2"]
    assert [expression_text(expr) for expr in other.components[0].own] == ["b.x > 1"]
    assert one.predicates == other.predicates == ()


# -- bounds and fingerprints ------------------------------------------------------------------


def test_size_matches_written_out_pattern() -> None:
    for seed in range(200):
        node = random_query(Random(seed)).node
        parts = spread(Turns(node).node)
        assert size(node) == (len(parts), max(len(part.spots) for part in parts))


def test_large_unchecked_tree_is_refused() -> None:
    query = parse_query("PATTERN OR(A a, B b) WITHIN 1 s")
    with pytest.raises(ValueError, match="2048 alternatives"):
        normalise(replace(query, node=Seq(items=(Item(query.node),) * 11)))


TEXT = "SEQ(A a, B+ b[]) WHERE b.x > 1.5 AND b[i].x > a.x"


def test_fingerprint_never_changes() -> None:
    """A changed digest would give all results new ids; each process hashes in its own way."""
    assert form(TEXT).fingerprint == "8f2574e1d6a80c7d64ee830d1bb89e29"


def test_fingerprint_ignores_only_spans() -> None:
    spaced = TEXT.replace(" ", "\n  ")
    assert form(spaced).fingerprint == form(TEXT).fingerprint
    others = [
        TEXT.replace("1.5", "1"), TEXT.replace("1.5", "TRUE"), TEXT.replace("1.5", "'1.5'"),
        TEXT.replace("B+", "B*"), TEXT.replace("b.x", "b.y"),
    ]  # fmt: skip
    prints = {form(text).fingerprint for text in [TEXT, *others]}
    prints.add(form(TEXT, "SKIP TO NEXT").fingerprint)
    assert len(prints) == len(others) + 2
