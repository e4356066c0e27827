"""Examples: Parquet files that take much more than they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from recordings import parquet_rows
from recordings.file import InputError
from recordings.parquet_rows import parquet_rows as rows_of
from tests.cli.invoking import TOPOLOGY, inorder
from tests.kit.programs import printed

NEEDED = ("source", "seq")
READ = """
import sys
import pyarrow as pa
from recordings.parquet_rows import parquet_rows
with open(sys.argv[1], "rb") as file:
    rows = parquet_rows(file, "f", ("source", "seq"))
    count = sum(len(row.values["payload"]["a"]) for row in rows)
print(count, pa.default_memory_pool().max_memory() >> 20)
"""


def written(path: Path, payloads: list[str]) -> Path:
    count = len(payloads)
    columns = {"source": ["a"] * count, "seq": list(range(count)), "ts": [5] * count}
    parquet.write_table(pa.table({**columns, "payload": payloads}), path)
    return path


def test_a_text_that_all_rows_share_is_in_memory_for_a_few_of_them(tmp_path: Path) -> None:
    each = 200_000
    bomb = written(tmp_path / "in.parquet", [f'{{"a":"{"0" * each}"}}'] * 4_000)
    assert bomb.stat().st_size < 100_000
    count, most_mib = map(int, printed("-c", READ, bomb).split())
    assert count == 4_000 * each
    assert most_mib < 64


def test_rows_larger_than_any_event_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    bomb = written(tmp_path / "in.parquet", ['"' + "0" * 70_000_000 + '"'])
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    inorder("replay", "--topology", str(tmp_path / "t.yaml"), str(bomb)).refused(
        "`payload`", code=3
    )


def test_one_text_larger_than_any_event_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "MAX_VALUE_BYTES", 10_000)
    small = written(tmp_path / "in.parquet", ["1"] * 500 + ['"' + "0" * 20_000 + '"'])
    with small.open("rb") as file, pytest.raises(InputError, match="row 501: `payload`"):
        list(rows_of(file, "in.parquet", NEEDED))
