"""Examples: Python in Spark runs in the driver's interpreter, with the locked packages. Names of
expressions are looked up in Java once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j import protocol
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_analytics.session import LOCAL, MASTER, PYTHON, new_session
from tests.spark_analytics.marks import SPARK

pytestmark = SPARK


def whose(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = [sys.executable] * batch.num_rows
        yield pa.RecordBatch.from_pydict({"python": names, "id": batch.column("id")})


def test_functions_run_in_same_interpreter(spark: SparkSession) -> None:
    rows: Any = spark.range(3).mapInArrow(whose, "python string, id long").toPandas()
    assert set(rows.python) == {sys.executable}
    assert sorted(rows.id) == [0, 1, 2]


def test_interpreter_can_be_set(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    before = context.pythonExec
    try:
        monkeypatch.setenv("PYSPARK_PYTHON", "/opt/one/python")
        new_session("by the environment")
        assert context.pythonExec == "/opt/one/python"
        new_session("by a setting", settings={PYTHON: "/opt/two/python"})
        assert context.pythonExec == "/opt/two/python"
    finally:
        context.pythonExec = before


def test_names_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    send, sent = client.send_command, list[str]()

    def counted(command: str, *more: Any) -> Any:
        sent.append(command)
        return send(command, *more)

    monkeypatch.setattr(client, "send_command", counted)
    F.coalesce(F.when(F.col("a") > 1, F.struct("a", F.lit(1))), F.expr("b"))
    assert [each for each in sent if each.startswith(protocol.CALL_COMMAND_NAME)]
    assert not [each for each in sent if each.startswith(protocol.REFLECTION_COMMAND_NAME)]


def test_tasks_retry_unless_master_is_set(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[dict[str, str]] = []

    def master() -> str | None:
        new_session("a job")
        return made.pop().get(MASTER)

    def built(self: Any) -> SparkSession:
        made.append(dict(self._options))
        return spark

    monkeypatch.setattr(type(SparkSession.builder), "getOrCreate", built)
    monkeypatch.setattr(type(SparkSession.builder), "_options", {}, raising=False)
    assert master() == LOCAL
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.master  spark://head:7077\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(type(SparkSession.builder), "_options", {}, raising=False)
    assert master() is None
