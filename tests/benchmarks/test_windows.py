"""Examples: the benchmark of windows in small; what it counts is what there is."""

from __future__ import annotations

from benchmarks.windows import (
    KINDS,
    RATE_HZ,
    by_keys,
    by_kind,
    config_of,
    emitted_per_second,
    stream,
)


def test_every_number_of_keys_has_its_row() -> None:
    table = by_keys(500, (1, 50))
    assert [row[0] for row in table.rows] == ["1", "50"]
    assert all(int(row[4].replace(" ", "")) > 100 for row in table.rows)


def test_every_kind_has_its_row() -> None:
    table = by_kind(300)
    assert [row[0] for row in table.rows] == list(KINDS)


def test_each_key_has_a_result_for_each_second() -> None:
    _, _, results = emitted_per_second(config_of("tumbling 1s"), stream(3 * RATE_HZ, 10))
    assert results == 30
