"""Fetches the jars that pyspark needs, for tests, benchmarks and the command line.

pyspark includes Spark itself. The jars that read Kafka (`kafka.xml` in this folder) come from Maven
into `.cache/spark-<release>/`, about 10 MB. Spark's own resolver (`spark.jars.packages`) is not
used, because it asks servers that may not be reachable.

PostgreSQL's JDBC driver (`postgres.xml`, 1 MB) is fetched likewise. So are the writers of Iceberg
tables (`iceberg.xml`, 47 MB) and Delta tables (`delta.xml`, 8 MB). The versions of these writers
follow the release of the installed pyspark (`RELEASES`).

Under spark-submit, the submitter names the jars (`--jars`), or the image has them. Then nothing is
fetched, and Maven is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cli.local.maven import Jars, JarsUnavailable
from spark_analytics.submitted import is_submitted

VERSION: Final = "4.1.3"
"""The version of pyspark in `infra/locks/spark.txt`, the image and the charts.

This is the newest release for which all jars exist. The poms have the versions of the jars.
"""
RELEASES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.0": {
        "spark.minor": "4.0",
        "connector.version": "4.0.0",
        "token.version": "4.0.0",
        "iceberg.version": "1.10.0",
        "delta.artifact": "delta-spark_2.13",
        "delta.version": "4.0.0",
    },
    "4.1": {},
}
"""Properties that replace the versions in the poms, by release."""
FORMATS: Final = ("iceberg", "delta")
POSTGRES: Final = "jdbc:postgresql:"


def release() -> str:
    """Return the release of the installed pyspark, or that of `VERSION` if none is installed."""
    try:
        installed = version("pyspark") or VERSION  # None while it is being installed
    except PackageNotFoundError:
        installed = VERSION
    return ".".join(installed.split(".")[:2])


def _jars_of_release(pom: str, name: str) -> Jars:
    return Jars(Path(__file__).parent / pom, name, RELEASES.get(release(), {}))


CONNECTOR = _jars_of_release("kafka.xml", f"spark-{release()}")
POSTGRES_DRIVER = Jars(Path(__file__).parent / "postgres.xml", "spark-postgres")
LAKES = {kind: _jars_of_release(f"{kind}.xml", f"spark-{release()}-{kind}") for kind in FORMATS}


def missing() -> str | None:
    """Return the reason why Spark cannot run here, or None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark not found; run make spark-setup, or pip install -r infra/locks/spark.txt"
    if is_submitted():
        return None
    no_jars = CONNECTOR.missing()
    return why_refused_release() or (no_jars and f"no Spark: {no_jars}")


def why_refused_release() -> str | None:
    """Return why no jars can be fetched for the installed pyspark, or None if they can."""
    if release() in RELEASES:
        return None
    return f"no jars are known for pyspark {release()}; install {' or '.join(RELEASES)}"


def fetch_connector_jars() -> list[str]:
    """Return the paths of the connector's jars, fetched if absent; none under spark-submit.

    Raises JarsUnavailable, which states why they cannot be fetched.
    """
    if is_submitted():
        return []
    return sorted(str(path) for path in CONNECTOR.fetch_folder().glob("*.jar"))


def folder() -> Path:
    """Return the folder of the jars, which exists once they have been fetched."""
    return CONNECTOR.folder()


def postgres_jars() -> list[str]:
    """Fetch the driver for Iceberg catalogs in PostgreSQL, and return the paths of its jars."""
    return _find_paths(POSTGRES_DRIVER, "JDBC driver of PostgreSQL")


def catalog_jars(catalog: str | None) -> list[str]:
    """Fetch the jars that a catalog at this address needs, and return their paths."""
    return postgres_jars() if (catalog or "").startswith(POSTGRES) else []


def fetch_lake_jars(kind: str) -> list[str]:
    """Fetch the jars that write tables as `iceberg` or `delta`, and return their paths."""
    return _find_paths(LAKES[kind], f"{kind.capitalize()} for Spark")


def _find_paths(jars: Jars, what: str) -> list[str]:
    if is_submitted():
        return []
    absent = jars.missing()
    if absent is not None:
        raise JarsUnavailable(f"no {what}: {absent}")
    return sorted(str(path) for path in jars.fetch_folder().glob("*.jar"))
