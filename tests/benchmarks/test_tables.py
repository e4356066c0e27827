"""Examples: how figures are spelled, and what a table looks like in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tables import Page, Table, count, ms, share, thousands, us


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (ms(0), "0"),
        (ms(31_400), "0.031"),
        (ms(7_660_000), "7.66"),
        (ms(398_500_000), "398.5"),
        (ms(62_507_290_000), "62 507"),
        (us(99_940), "99.9"),
        (us(1_234_567), "1 235"),
        (share(1, 8), "12.50"),
        (share(5, 62_473), "0.008"),
        (share(0, 9), "0"),
        (share(1, 0), "-"),
        (count(1_234_567), "1 234 567"),
        (thousands(1_234_567), "1.23 M"),
        (thousands(123_456), "123 k"),
        (thousands(7_250), "7.2 k"),
    ],
)
def test_figures_can_be_read_down_a_column(spelled: str, expected: str) -> None:
    assert spelled == expected


def test_a_table_is_written_beside_being_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("speed", ("program", "rate"), note="on two cores")
    table.add("a | b", "1")
    file = tmp_path / "figures.md"
    Page(file).table(table)
    assert "speed" in capsys.readouterr().out
    assert file.read_text() == (
        "### speed\n\n| program | rate |\n| --- | ---: |\n| a \\| b | 1 |\n\non two cores\n\n"
    )


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="speed: 1 cells for 2 columns"):
        Table("speed", ("program", "rate")).add("a")


def test_what_a_paper_prints_stands_behind_its_rows() -> None:
    table = Table("speed", ("program", "rate"))
    table.add("ours", "1")
    table.add("theirs", "2")
    table.printed(("printed", "ms"), {"theirs": (2, 1_234.5)})
    assert table.columns == ("program", "rate", "printed", "ms")
    assert table.rows == [("ours", "1", "", ""), ("theirs", "2", "2.00", "1 234.50")]
