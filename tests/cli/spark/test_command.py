"""Examples: arguments that `inorder spark` refuses before it starts Spark, and a resumed run."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

import cli.spark.jars
from cli.durations import duration_ns
from cli.topology_file import Refused
from spark_analytics.executors.setting import Setting, digests
from tests.cli.invoking import inorder, text_file
from tests.services import require
from topology.spelling.kinds import parse_length_ns

REFUSED = [
    (["run", "rates", "--archive", "a"], "add --batch"),
    (["run", "archive", "--format", "iceberg", "--catalog", "http://h"], "is read by its path"),
    (["run", "rates", "--batch", "--window", "count 5"], "only windows of time"),
    (["run", "rates", "--batch", "--window", "tumbling 10"], "--window tumbling 10"),
    (["run", "rates", "--batch", "--window", "tumbling 10ns"], "microseconds"),
    (["run", "rates", "--every", "2x"], "--every: `2x` has an unknown unit `x`; use one of: ns"),
    (["run", "rates", "--every", "10ns"], "--every: 10 ns: Spark counts in microseconds"),
    (["run", "rates", "--batch", "--conf", "x"], "NAME=VALUE"),
    (["run", "rates", "--catalog", "http://h"], "--catalog is Iceberg's"),
    (["run", "nothing"], "Invalid value"),
    (["live", "--every", "2x"], "--every: `2x` has an unknown unit `x`"),
    (["live", "--every", "1s s"], "--every: `1s s` is not a number with a unit"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_bad_arguments_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    require(cli.spark.jars.missing())
    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    options = ["--topology", str(file), "--brokers", "127.0.0.1:1", "--out", str(tmp_path)]
    answer = inorder("spark", *words, *options).refused(message)
    assert "tumbling" not in answer.err or "--every" not in words


@pytest.mark.parametrize("text", ["0s", "-1s", "2x", "", "200000d"])
def test_bad_durations_are_refused(text: str) -> None:
    assert duration_ns("--every", "1.5s", parse_length_ns) == 1_500_000_000
    with pytest.raises(Refused, match=r"^--every: [^;]*; \w"):
        duration_ns("--every", text, parse_length_ns)


def test_resumed_run_prints_its_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(cli.spark.jars.missing())
    from spark_analytics.backfill.resuming import PendingRows, TableForm

    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    about = digests(Setting(file.read_text()))
    now = {"run": 1, "topology": about, "tables": TableForm("parquet", None, None), "ended": True}
    coming = PendingRows(1, str(tmp_path / ".out-0123456789ab"), [], now, {"in": 7, "event": 7})
    (tmp_path / ".out-0123456789ab").mkdir()
    (tmp_path / "out" / "_state").mkdir(parents=True)
    (tmp_path / "out" / "_state" / "coming.json").write_text(json.dumps(coming._asdict()))
    monkeypatch.setattr("cli.spark.command.open_session", lambda *_: nullcontext())
    words = ["--topology", str(file), "--in", str(file), "--out", str(tmp_path / "out")]
    done = inorder("spark", "backfill", *words, "--resume", "--json").well()
    brought, message = done.err.splitlines()
    assert "is now complete" in brought
    assert json.loads(message) == {"in": 7, "event": 7}
