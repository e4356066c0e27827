"""Examples: the sources that the table forgets when a new one is added."""

from __future__ import annotations

from functools import partial

from topology.base.operator import NEVER
from topology.state.saved import INT, Shape
from topology.state.sources import KnownSource, SourceTable


class Row(KnownSource):
    SHAPE = Shape("row", 1, held=INT)

    def __init__(self, source: str, last_arrival_ns: int, held: int = 0) -> None:
        super().__init__(source, last_arrival_ns)
        self.held = held

    def busy(self) -> bool:
        return self.held > 0


def table(max_sources: int = 3, forget_after_ns: int = NEVER) -> SourceTable[Row]:
    return SourceTable(
        "row/", Row.SHAPE, partial(Row, last_arrival_ns=0), max_sources, forget_after_ns
    )


def names(rows: list[Row]) -> list[str]:
    return [row.source for row in rows]


def test_longest_idle_source_is_forgotten() -> None:
    rows = table()
    for name, heard_ns in (("a", 1), ("b", 2), ("c", 3)):
        assert rows.add(Row(name, heard_ns)) == []
    rows.rows["a"].last_arrival_ns = 4
    assert names(rows.add(Row("d", 5))) == ["b"]
    assert sorted(rows.rows) == ["a", "c", "d"]
    assert rows.forgotten == 1


def test_busy_source_stays_and_table_grows() -> None:
    rows = table(max_sources=2)
    rows.add(Row("a", 1, held=1))
    rows.add(Row("b", 2, held=1))
    assert rows.add(Row("c", 3)) == []
    assert len(rows.rows) == 3
    rows.rows["a"].held = 0
    assert names(rows.add(Row("d", 4))) == ["a", "c"]
    assert sorted(rows.rows) == ["b", "d"]


def test_new_source_expires_silent_ones() -> None:
    rows = table(max_sources=9, forget_after_ns=10)
    for name, heard_ns in (("a", 1), ("b", 6), ("c", 15)):
        rows.add(Row(name, heard_ns))
    assert sorted(rows.rows) == ["b", "c"]
    assert names(rows.add(Row("d", 25))) == ["b"]
    assert sorted(rows.rows) == ["c", "d"]
