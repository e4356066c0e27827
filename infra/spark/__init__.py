"""Spark for tests, benchmarks and the command line: pyspark and the connector's jars.

pyspark brings Spark itself; the jars with which it reads Kafka come from Maven
(`pom.xml` beside this file) into `.cache/spark-<version>/`, about 10 MB. Spark's own
resolver (`spark.jars.packages`) is not used: it looks in places that need not be
reachable. `python -m infra.spark` brings them and prints their paths.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from infra.maven import Jars

VERSION = "4.0.0"

_JARS = Jars(Path(__file__).parent / "pom.xml", f"spark-{VERSION}")


def missing() -> str | None:
    """Why Spark cannot run here; None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark not found; run make spark-setup, or pip install -r requirements-spark.lock"
    no_jars = _JARS.missing()
    return no_jars and f"no Spark: {no_jars}"


def jars() -> list[str]:
    """Paths of the connector's jars; brings them first where they are not there yet.
    JarsUnavailable says why they cannot be had."""
    return sorted(str(path) for path in _JARS.brought().glob("*.jar"))
