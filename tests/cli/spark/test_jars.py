"""Examples: one version of Spark everywhere, and the jars of the connector."""

from __future__ import annotations

import re
from pathlib import Path

import cli.spark.jars
from tests import ROOT
from tests.services import require


def test_every_place_names_the_same_spark() -> None:
    assert cli.spark.jars.VERSION.startswith(next(iter(cli.spark.jars.RELEASES)))
    assert f'"pyspark=={cli.spark.jars.VERSION}"' in (ROOT / "pyproject.toml").read_text()
    lock = (ROOT / "requirements-spark.lock").read_text()
    assert f"\npyspark=={cli.spark.jars.VERSION} " in lock


def test_every_release_has_each_version_that_a_pom_leaves_open() -> None:
    poms = [(ROOT / f"cli/spark/{name}.xml").read_text() for name in ("kafka", "iceberg", "delta")]
    wanted = set(re.findall(r"\$\{(.*?)\}", "".join(poms)))
    for name, versions in cli.spark.jars.RELEASES.items():
        assert {"spark.minor", *versions} == wanted, name


def test_the_jars_are_brought() -> None:
    require(cli.spark.jars.missing())
    names = [Path(jar).name for jar in cli.spark.jars.jars()]
    assert len(names) == 4
    assert any(name.startswith("spark-sql-kafka") for name in names)
