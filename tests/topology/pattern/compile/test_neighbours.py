"""PREV: example tables. What it means in any order of arrival is under the laws of
`test_engine_laws` and `test_tactics`, against an oracle that counts in a list."""

from __future__ import annotations

import pytest

from tests.topology.pattern.following import Reader, contents, feed, taken
from tests.topology.pattern.generate import entry
from tests.topology.pattern.oracle import oracle
from topology.pattern.compile.attributes import ABSENT
from topology.pattern.compile.neighbours import Neighbours
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex


def prices(text: str, kind: str = "T") -> list[Entry]:
    """An event for each number, ten apart."""
    return [
        entry(kind, 10 * at, at, {"p": int(price), "id": at % 2})
        for at, price in enumerate(text.split())
    ]


def test_the_event_before_is_the_last_of_all_before_that_is_near() -> None:
    index, stream = EntryIndex(), prices("5 4 3")
    for one in stream:
        index.add(one)
    neighbours = Neighbours()
    assert neighbours.beside(stream[2], -1) is ABSENT
    neighbours.look_at(index, 15)
    assert neighbours.beside(stream[2], -1) is stream[1]
    assert neighbours.beside(stream[2], -2) is ABSENT, "further back than the window"
    assert neighbours.beside(stream[0], -1) is ABSENT
    assert neighbours.beside(ABSENT, -1) is ABSENT
    neighbours.look_at(index, 20)
    assert neighbours.beside(stream[2], -2) is stream[0]


V_SHAPE = (
    "SEQ(T a, T+ d[], T+ u[]) WHERE d.p < PREV(d.p) AND u.p > PREV(u.p) WITHIN 1 s USING strict"
    " MATCHES BEST SKIP PAST LAST"
)


@pytest.mark.parametrize(
    ("query", "stream", "found"),
    [
        (V_SHAPE, prices("9 7 5 6 8 4 6 6"), ["0 1 2 3 4"]),
        (V_SHAPE, prices("9 7 8 5 9"), ["0 1 2"]),
        (
            "SEQ(T a, T b) WHERE PREV(b.p) < a.p WITHIN 1 s",
            prices("5 6 4 7"),
            ["0 3", "1 3"],
        ),
        ("T a WHERE PREV(a.p, 2) = 5 WITHIN 1 s", prices("5 6 4"), ["2"]),
        ("T a WHERE PREV(a.p) IS NULL WITHIN 1 s", prices("5 6 4"), ["0"]),
        ("T a WHERE PREV(a.p) = 5 AND [id] WITHIN 1 s", prices("5 6 4"), ["2"]),
    ],
)
def test_what_is_found(query: str, stream: list[Entry], found: list[str]) -> None:
    """And so in every order of arrival, one event late after the other."""
    compiled = Compiled(parse_query(f"PATTERN {query}"))
    wanted = oracle(compiled.form, stream)
    assert [
        " ".join(str(one.event.seq) for _, one in match.labelled()) for match in wanted
    ] == found
    for late in range(len(stream)):
        engine, reader = Engine([compiled]), Reader()
        feed(engine, reader, [*stream[:late], *stream[late + 1 :], stream[late]])
        engine.end(0)
        reader.read(taken(engine))
        assert reader.contents() == contents(compiled, wanted), late
