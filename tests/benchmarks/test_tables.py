"""Examples: the format of figures, and of a table in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tables import Page, Table, count, format_ms, format_rate, format_share, format_us


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ([format_ms(ns) for ns in (0, 31_400, 7_660_000, 398_500_000)], "0 0.031 7.66 398.5"),
        (
            [format_us(99_940), format_share(1, 8), format_share(5, 62_473), format_share(0, 9)],
            "99.9 12.50 0.008 0",
        ),
        ([format_share(1, 0), format_rate(123_456), format_rate(7_250)], "- 123 k 7.2 k"),
        (
            [format_ms(62_507_290_000), format_us(1_234_567), count(1_234_567)],
            "62 507 1 235 1 234 567",
        ),
        ([format_rate(1_234_567)], "1.23 M"),
    ],
)
def test_figures_are_rounded_and_grouped(spelled: list[str], expected: str) -> None:
    assert " ".join(spelled) == expected


def test_table_is_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("speed", ("program", "rate"), note="on two cores")
    table.add("a | b", "1")
    file = tmp_path / "figures.md"
    Page(file).table(table)
    assert "speed" in capsys.readouterr().out
    assert file.read_text() == (
        "### speed\n\n| program | rate |\n| --- | ---: |\n| a \\| b | 1 |\n\non two cores\n\n"
    )


def test_wrong_row_is_refused() -> None:
    with pytest.raises(ValueError, match="speed: 1 cells for 2 columns"):
        Table("speed", ("program", "rate")).add("a")


def test_published_figures_become_columns() -> None:
    table = Table("speed", ("program", "rate"))
    table.add("ours", "1")
    table.add("theirs", "2")
    table.print(("printed", "ms"), {"theirs": (2, 1_234.5)})
    assert table.columns == ("program", "rate", "printed", "ms")
    assert table.rows == [("ours", "1", "", ""), ("theirs", "2", "2.00", "1 234.50")]
