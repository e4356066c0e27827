"""Helpers for tests of sinks: records by the contract, and the current results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pyarrow import parquet

from inorder.contract import RETRACT
from sinks.result import Result, parse
from sinks.sink import BegunAnew, Marks, Progress, Reader, Refused

Current = dict[str, bytes]
"""The current record by id, without retracted results."""


def fields(id_: str = "a", revision: int = 0, op: str | None = None, **others: Any) -> Any:
    """Return a result's JSON object: an emit, then updates, unless `op` is given."""
    return {
        "id": id_,
        "query": "speed",
        "op": op or ("emit" if revision == 0 else "update"),
        "revision": revision,
        "final": False,
        "confidence": "confirmed",
        "start": 1_700_000_000_000_000_000,
        "end": 1_700_000_001_000_000_000,
        "events": [{"source": "s1", "epoch": 0, "seq": revision}],
        "values": {"v": revision * 1.5, "name": f"{id_}·{revision}"},
        **others,
    }


def record(id_: str = "a", revision: int = 0, op: str | None = None, **others: Any) -> bytes:
    return orjson.dumps(fields(id_, revision, op, **others))


def result(id_: str = "a", revision: int = 0, op: str | None = None, **others: Any) -> Result:
    made = parse(record(id_, revision, op, **others))
    assert isinstance(made, Result)
    return made


class MemorySink:
    """An oracle that takes one result after the other, exactly by the contract."""

    def __init__(self) -> None:
        self.known: dict[str, Result] = {}
        self.positions: dict[int, int] = {}
        self.is_older = False

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        steps = progress.steps if progress else {}
        if any(self.positions.get(each, -1) < step.known for each, step in steps.items()):
            raise BegunAnew("the marks are gone")
        for number, step in steps.items():
            self.positions[number] = max(self.positions[number], step.next)
        for each in results:
            if each.id not in self.known or self.known[each.id].revision < each.revision:
                self.known[each.id] = each
        return ()

    def marks(self, _: Reader) -> Marks:
        return Marks("the memory", dict(self.positions), self.is_older)

    def mark(self, _: Reader, positions: Mapping[int, int]) -> None:
        for each, position in positions.items():
            self.positions[each] = max(self.positions.get(each, 0), position)

    def close(self) -> None:
        pass

    def current(self) -> Current:
        return {each.id: each.record for each in self.known.values() if each.op != RETRACT}


def current_of(results: Iterable[Result]) -> Current:
    oracle = MemorySink()
    oracle.write(list(results))
    return oracle.current()


def same(current: Current) -> dict[str, Any]:
    """Parse the records, for stores that keep JSON but not its spelling."""
    return {id_: orjson.loads(value) for id_, value in current.items()}


def rows_in(folder: Path) -> list[Result]:
    """Return all results in finished files, read as docs/guides/results.md describes."""
    lines: list[bytes] = []
    for path in sorted(folder.glob("results-*.jsonl")):
        lines += path.read_bytes().splitlines()
    for path in sorted(folder.glob("results-*.parquet")):
        for row in parquet.read_table(path).to_pylist():
            made = parse(row["record"].encode())
            assert isinstance(made, Result)
            columns = {name: getattr(made, name) for name in row if name != "record"}
            assert columns == {name: row[name] for name in columns}
            lines.append(row["record"].encode())
    found = [parse(line) for line in lines]
    assert all(isinstance(each, Result) for each in found)
    return [each for each in found if isinstance(each, Result)]
