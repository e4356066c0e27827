"""Whether the text of a query that comes from outside may be read, and run.

Who writes a live query is not who runs the stage, and what it costs to read is paid while records
wait. The cost is that of its words, and of compiling its conditions once for each way through its
ORs. So both have a bound, which the queries of a topology file do not: with these the worst text
takes less than 0.1 s to read and compile, on one core of 2024.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from topology.pattern.language.lexing import tokens
from topology.pattern.tree.partial_order import size
from topology.pattern.tree.syntax import Query
from topology.pattern.tree.walk import components

MAX_WORDS: Final = 1_000
"""Words and signs of a text; one of ten lines has about 150."""

MAX_WORK: Final = 6_000
"""Words times the ways through the ORs of the pattern."""


def words_of(text: str) -> int:
    """How many there are, at most one more than may be. O(MAX_WORDS)."""
    return sum(1 for _ in islice(tokens(text), MAX_WORDS + 1))


def too_long(text: str) -> str:
    """Why it is not read; empty if it may be."""
    if words_of(text) > MAX_WORDS:
        return f"the pattern has more than {MAX_WORDS} words and signs; split it in several queries"
    return ""


def too_much(text: str, query: Query) -> str:
    """Why what was read of it is not run; empty if it may be."""
    words, (ways, most) = words_of(text), size(query.node)
    ways *= 1 + most // max(1, len(list(components(query.node))))
    if words * ways > MAX_WORK:
        return (
            f"{words} words and signs times {ways} ways through the ORs are more than {MAX_WORK};"
            " split it in several queries"
        )
    return ""
