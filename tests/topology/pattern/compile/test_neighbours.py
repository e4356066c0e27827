"""PREV: example tables. What it means in any order of arrival is under the laws of
`test_engine_laws` and `test_tactics`, against an oracle that counts in a list."""

from __future__ import annotations

import pytest

from tests.topology.pattern.following import contents, current
from tests.topology.pattern.generate import entry
from tests.topology.pattern.oracle import oracle
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.store.entry import Entry


def prices(text: str) -> list[Entry]:
    """An event for each number, ten apart."""
    payloads = [{"p": int(price), "id": at % 2} for at, price in enumerate(text.split())]
    return [entry("T", 10 * at, at, payload) for at, payload in enumerate(payloads)]


V_SHAPE = (
    "SEQ(T a, T+ d[], T+ u[]) WHERE d.p < PREV(d.p) AND u.p > PREV(u.p) WITHIN 1 s USING strict"
    " MATCHES BEST SKIP PAST LAST"
)


@pytest.mark.parametrize(
    ("query", "stream", "found"),
    [
        (V_SHAPE, prices("9 7 5 6 8 4 6 6"), ["0 1 2 3 4"]),
        (V_SHAPE, prices("9 7 8 5 9"), ["0 1 2"]),
        ("SEQ(T a, T b) WHERE PREV(b.p) < a.p WITHIN 1 s", prices("5 6 4 7"), ["0 3", "1 3"]),
        ("T a WHERE PREV(a.p, 2) = 5 WITHIN 1 s", prices("5 6 4"), ["2"]),
        ("T a WHERE PREV(a.p) IS NULL WITHIN 1 s", prices("5 6 4"), ["0"]),
        ("T a WHERE PREV(a.p, 2) IS NULL WITHIN 15 ns", prices("5 6 4"), ["0", "1", "2"]),
        ("T a WHERE PREV(a.p, 2) = 5 WITHIN 20 ns", prices("5 6 4"), ["2"]),
        ("T a WHERE PREV(a.p) = 5 AND [id] WITHIN 1 s", prices("5 6 4"), ["2"]),
    ],
)
def test_what_is_found(query: str, stream: list[Entry], found: list[str]) -> None:
    """And so in every order of arrival, one event late after the other."""
    compiled = Compiled(parse_query(f"PATTERN {query}"))
    wanted = oracle(compiled.form, stream)
    numbers = [" ".join(str(one.event.seq) for _, one in match.labelled()) for match in wanted]
    assert numbers == found
    for late in range(len(stream)):
        arrivals = [*stream[:late], *stream[late + 1 :], stream[late]]
        assert current(compiled, arrivals).contents() == contents(compiled, wanted), late
