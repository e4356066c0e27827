"""Examples: a pattern is refused by its size, however it got there, before it is written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.tree.errors import QueryRefused
from topology.pattern.tree.normal_form import normalise
from topology.pattern.tree.syntax import Item, Seq

NESTED = "SEQ(SEQ(A a{0}, B b{0}){{0,1000000}}, C c{0}){{14,20}}"


@pytest.mark.parametrize("first", ["", "A x, A x, "])
def test_counts_within_counts_are_refused_beside_other_mistakes(first: str) -> None:
    nested = ", ".join(NESTED.format(number) for number in range(90))
    with pytest.raises(QueryRefused, match="more than 10000 alternatives"):
        check(parse_query(f"PATTERN SEQ({first}{nested}) WITHIN 1 s"))


def test_a_tree_that_was_not_checked_is_not_written_out() -> None:
    query = parse_query("PATTERN OR(A a, B b) WITHIN 1 s")
    with pytest.raises(ValueError, match="2048 alternatives"):
        normalise(replace(query, node=Seq(items=(Item(query.node),) * 11)))
