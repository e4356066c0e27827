"""Finds which queries read the matches that others write with INTO, and checks these chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from topology.queries.pattern.tree.syntax import Query
from topology.queries.pattern.tree.walk import find_components


class ChainError(NamedTuple):
    """An error in the matches that a query reads from other queries, with a hint."""

    query: str
    message: str
    hint: str


def find_types_read(queries: Sequence[Query]) -> dict[str, frozenset[str]]:
    """Return, by the names of queries, the event types that each reads from another's INTO.

    A query that reads its own matches, directly or through other queries, gets no types.
    """
    read = _find_types_named(queries)
    while circle := _find_cycle(queries, read):
        read |= dict.fromkeys(circle, frozenset())
    return read


def find_chain_errors(queries: Sequence[Query]) -> Iterator[ChainError]:
    read = _find_types_named(queries)
    circle = _find_cycle(queries, read)
    if circle:
        way = " reads ".join(f"`{name}`" for name in [*circle, circle[0]])
        yield ChainError(circle[0], f"reads its own matches: {way}", "give INTO another name")
    for query in queries:
        if not read[query.name]:
            continue
        type_ = min(read[query.name])
        if query.emit == "slack":
            message = f"`{type_}` are matches, for which EMIT SLACK is not supported"
            yield ChainError(query.name, message, "leave EMIT SLACK out")
        if query.sets:
            message = f"`{type_}` are matches, which cannot be members of sets"
            yield ChainError(query.name, message, "leave AS SETS out")
        for writer in queries:
            if writer.sets and writer.into in read[query.name]:
                message = f"reads `{writer.into}`, which are sets of matches, not events"
                hint = f"leave AS SETS out of `{writer.name}`"
                yield ChainError(query.name, message, hint)


def _find_types_named(queries: Sequence[Query]) -> dict[str, frozenset[str]]:
    written = {query.into for query in queries if query.into}
    return {
        query.name: frozenset(t for each in find_components(query.node) for t in each.types)
        & written
        for query in queries
    }


def _find_cycle(queries: Sequence[Query], read: Mapping[str, frozenset[str]]) -> list[str]:
    """Return queries that read each other in a circle, or an empty list.

    Each query in the list reads the matches of the next one, and the last reads those of the first.
    """
    writers: dict[str, list[str]] = {}
    for query in queries:
        writers.setdefault(query.into, []).append(query.name)
    below = {
        name: [writer for type_ in sorted(types) for writer in writers[type_]]
        for name, types in read.items()
    }
    try:
        TopologicalSorter(below).prepare()
    except CycleError as found:
        circle: list[str] = found.args[1][:0:-1]
        return circle
    return []
