"""Examples: times in a wrong unit cause an early warning, artificial times do not."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import Answer, inorder, json_lines, replay_of, text_file
from topology.records.reasons import REASONS

NOW_MS = 1_700_000_000_000
TRUSTING = "{clock: {unsynced: trust}}"
UNITS = {"us": 10**3, "ms": 10**6, "s": 10**9}


def replayed(
    folder: Path, rows: list[dict[str, Any]], stream: str = TRUSTING, queries: str = "{}"
) -> Answer:
    return replay_of(folder, f"streams: {{pitch: {stream}}}\nqueries: {queries}\n", rows)


def rows(count: int, start: float, step: float, **also: float) -> list[dict[str, Any]]:
    """Return rows; `also` gives the first `arrival`, which then advances by 10 ms a row."""
    return [
        {"source": "a", "seq": seq, "ts": start + seq * step}
        | {name: value + seq * 10**7 for name, value in also.items()}
        for seq in range(count)
    ]


def warnings(answer: Answer) -> list[str]:
    return [line for line in answer.err.splitlines() if line.startswith("WARNING: ")]


@pytest.mark.parametrize("count", [1, 5, 3_000])
@pytest.mark.parametrize("unit", UNITS)
def test_remedy_for_wrong_unit_works(tmp_path: Path, unit: str, count: int) -> None:
    start = NOW_MS * 10**6 // UNITS[unit]
    answer = replayed(tmp_path, rows(count, start, 1))
    (warning,) = warnings(answer)
    written = f"{{headers: {{ts_unit: {unit}}}}}"
    assert f"streams: {{pitch: {written}}}" in warning
    mended = replayed(tmp_path, rows(count, start, 1), stream=written)
    assert warnings(mended) == []
    assert [line["ts"] for line in mended.lines] == [
        (start + seq) * UNITS[unit] for seq in range(count)
    ]
    assert mended.summary["event"] == count


def test_warning_comes_early(tmp_path: Path) -> None:
    """A warning follows the first thousand lines; the rest of the file cannot be read at all."""
    topology = text_file(tmp_path / "t.yaml", "streams: {pitch: {}}\n")
    text = json_lines(tmp_path / "e.jsonl", rows(5_000, NOW_MS, 1)).read_bytes()
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(text, mtime=0)[:-8] + b"01234567")
    answer = inorder("replay", "--topology", topology, tmp_path / "e.jsonl.gz")
    assert answer.code == 3
    assert warnings(answer)


@pytest.mark.parametrize(
    "made_up",
    [
        pytest.param(rows(4, 1_000, 1_000), id="of the README"),
        pytest.param(rows(2_000, 0, 10**9), id="a second apart from 0"),
        pytest.param(rows(2_000, 0, 1), id="a nanosecond apart"),
        pytest.param(rows(200, NOW_MS * 10**6, 10**7), id="right"),
        pytest.param(rows(200, NOW_MS * 10**6, 1, arrival=NOW_MS * 10**6), id="a burst"),
        pytest.param([{"source": "a", "seq": 0}], id="without times"),
        pytest.param(rows(1, 1 - 2**63, 0), id="at the edge"),
    ],
)
def test_plausible_times_cause_no_warning(tmp_path: Path, made_up: list[Any]) -> None:
    answer = replayed(tmp_path, made_up)
    assert answer.code == 0
    assert len(answer.err.splitlines()) == 1


def test_unit_is_found_by_rate(tmp_path: Path) -> None:
    since_start = rows(200, 5, 10, arrival=NOW_MS * 10**6)
    (warning,) = warnings(replayed(tmp_path, since_start))
    assert "{ts_unit: ms}" in warning
    assert warnings(replayed(tmp_path, since_start[:50])) == []


def test_wrongly_set_unit_is_found(tmp_path: Path) -> None:
    seconds = "{headers: {ts_unit: us}}"
    (warning,) = warnings(replayed(tmp_path, rows(5, NOW_MS // 1_000, 1), stream=seconds))
    assert "looks like seconds and is read as microseconds" in warning


def test_arrival_in_ms_is_recognised(tmp_path: Path) -> None:
    wrong = [{**row, "arrival": row["ts"]} for row in rows(5, NOW_MS, 1)]
    ts, arrival = warnings(replayed(tmp_path, wrong))
    assert "{ts_unit: ms}" in ts
    assert "`arrival` looks like milliseconds" in arrival
    assert "times 1,000,000" in arrival


def test_floating_point_ts_is_dead_letter(tmp_path: Path) -> None:
    answer = replayed(tmp_path, rows(30, NOW_MS / 1_000 + 0.25, 1))
    unit, dead = warnings(answer)
    assert "{ts_unit: s}" in unit
    assert "every line is a dead letter (30), with reason ts_unreadable; line 1: `ts` is" in dead
    assert answer.code == 4


@pytest.mark.parametrize(
    ("bad", "good", "code", "loud"),
    [(19, 0, 0, True), (20, 0, 4, True), (20, 1, 0, True), (20, 20, 0, False), (0, 0, 0, False)],
)
def test_dead_lines_warn_or_fail(
    tmp_path: Path, bad: int, good: int, code: int, loud: bool
) -> None:
    answer = replayed(tmp_path, [DEAD] * bad + rows(good, 0, 1))
    assert answer.code == code
    assert bool(warnings(answer)) == loud
    assert answer.summary["dead"] == bad


DEAD = {"source": "a", "seq": "x"}


def test_dead_lines_warn_early(tmp_path: Path) -> None:
    first, last = warnings(replayed(tmp_path, [DEAD] * 2_500))
    assert first.startswith("WARNING: at this point ")
    assert "every line is a dead letter (2,500)" in last


def test_reasons_have_a_remedy(tmp_path: Path) -> None:
    made = [*rows(3, 0, 1), {"source": "a"}, {"seq": 1}, {"source": "a"}]
    assert replayed(tmp_path, made).summary["dead_reasons"] == {
        f"{name}_missing": {
            "count": count,
            "line": line,
            "detail": f"`{name}` is missing; {REASONS[f'{name}_missing'].remedy}",
        }
        for name, count, line in (("seq", 2, 4), ("source", 1, 5))
    }
    words = ("--topology", tmp_path / "topology.yaml", tmp_path / "events.jsonl")
    table = inorder("replay", *words).err
    assert "dead: 2 seq_missing; first in line 4: `seq` is missing; write it in" in table


def test_results_are_counted_by_query(tmp_path: Path) -> None:
    queries = (
        "{n: {window: tumbling 1s, aggregate: {n: count()}},"
        ' p: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}}'
    )
    answer = replayed(tmp_path, rows(3, 0, 10**9), queries=queries)
    windows = answer.of("window")
    assert answer.summary["results"] == {
        "n": {"stand": 3, "emit": len(windows), "update": 0, "retract": 0, "uncertain": 1}
    }
    one = json_lines(tmp_path / "one.jsonl", rows(1, 0, 1))
    text = inorder("replay", "--topology", tmp_path / "topology.yaml", one).err
    assert "query n: 1 current result (1 emitted" in text


def test_rejected_events_warn(tmp_path: Path) -> None:
    answer = replayed(tmp_path, rows(30, NOW_MS * 10**6, 10**7), "{clock: {unsynced: reject}}")
    assert answer.code == 0
    assert "every line is a dead letter (30), with reason unsynced" in warnings(answer)[-1]
