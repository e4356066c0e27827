"""Oracle: functions and bounded jobs return the same rows with Spark Connect, on a local server. A
job that needs Java in this process is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import ROOT
from tests.spark_analytics.connected import answers
from tests.spark_analytics.marks import SPARK

pytestmark = SPARK

TIMEOUT_S = 500.0
STREAM = (
    "a stream needs Spark in this process, but Spark Connect runs it elsewhere; leave out --master"
    " sc:// and SPARK_REMOTE, or use spark-submit"
)


@pytest.mark.long
def test_connect_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.spark_analytics.connected", str(tmp_path)]
    apart = subprocess.Popen(
        program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        mine = answers(spark, tmp_path / "mine")
        said, _ = apart.communicate(timeout=TIMEOUT_S)
    finally:
        apart.kill()
    assert apart.returncode == 0, said[-3_000:]
    document = json.loads((tmp_path / "answers.json").read_text())
    theirs = document["answers"]
    assert theirs.keys() == mine.keys()
    for name, rows in mine.items():
        assert theirs[name] == rows, name
    assert all(mine.values())
    assert document["refused"] == STREAM
