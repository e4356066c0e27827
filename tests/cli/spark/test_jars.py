"""Examples: one version of Spark everywhere, and the connector's jars."""

from __future__ import annotations

import re
from pathlib import Path

import cli.spark.jars
from tests import ROOT
from tests.services import require


def test_spark_version_agrees_everywhere() -> None:
    oldest, *_, newest = cli.spark.jars.RELEASES
    assert cli.spark.jars.VERSION.startswith(f"{newest}.")
    taken = f'"pyspark>={oldest},<={cli.spark.jars.VERSION}"'
    assert taken in (ROOT / "pyproject.toml").read_text()
    lock = (ROOT / "infra/locks/spark.txt").read_text()
    assert f"\npyspark=={cli.spark.jars.VERSION} " in lock
    image = (ROOT / "infra/spark/Dockerfile").read_text()
    assert f"ARG SPARK=apache/spark:{cli.spark.jars.VERSION}-" in image


def test_releases_name_all_versions() -> None:
    poms = [(ROOT / f"cli/spark/{name}.xml").read_text() for name in ("kafka", "iceberg", "delta")]
    text = "".join(poms)
    wanted = set(re.findall(r"\$\{(.*?)\}", text))
    there = dict(re.findall(r"<([a-z]+\.[a-z]+)>(.*?)</", text))
    assert set(there) == wanted
    *others, newest = cli.spark.jars.RELEASES
    assert there["spark.minor"] == newest
    assert cli.spark.jars.RELEASES[newest] == {}
    for name in others:
        assert set(cli.spark.jars.RELEASES[name]) == wanted, name


def test_connector_jars_are_fetched() -> None:
    require(cli.spark.jars.missing())
    names = [Path(jar).name for jar in cli.spark.jars.fetch_connector_jars()]
    assert len(names) == 4
    assert any(name.startswith("spark-sql-kafka") for name in names)
