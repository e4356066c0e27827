"""Examples: one version of Spark everywhere, and the jars of the connector."""

from __future__ import annotations

import re
from pathlib import Path

import cli.spark.jars
from tests import ROOT
from tests.services import require


def test_every_place_names_the_same_spark() -> None:
    pom = (ROOT / "cli/spark/kafka.xml").read_text()
    pins = re.findall(r"<groupId>org.apache.spark</groupId>.*?<version>(.*?)<", pom, re.DOTALL)
    assert pins == [cli.spark.jars.VERSION] * 2
    assert f'"pyspark=={cli.spark.jars.VERSION}"' in (ROOT / "pyproject.toml").read_text()
    lock = (ROOT / "requirements-spark.lock").read_text()
    assert f"\npyspark=={cli.spark.jars.VERSION} " in lock


def test_the_jars_are_brought() -> None:
    require(cli.spark.jars.missing())
    names = [Path(jar).name for jar in cli.spark.jars.jars()]
    assert len(names) == 4
    assert any(name.startswith("spark-sql-kafka") for name in names)
