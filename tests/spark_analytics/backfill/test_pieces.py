"""Example: a file that is one huge line is cut into pieces without keeping the line in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from spark_analytics.backfill.pieces import Piece, pieces_of


def test_endless_line_is_not_kept_in_memory(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    with lines.open("wb") as file:
        file.write(b'{"x": 1}\n')
        file.truncate(100 << 20)
    tracemalloc.start()
    try:
        assert pieces_of([str(lines)]) == [Piece(str(lines), 0, 100 << 20)]
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
