"""Spark for tests, benchmarks and the command line: pyspark and the connector's jars.

pyspark brings Spark itself; the jars with which it reads Kafka come from Maven
(`kafka.xml` beside this file) into `.cache/spark-<release>/`, about 10 MB. Spark's own
resolver (`spark.jars.packages`) is not used: it looks in places that need not be
reachable. `python -m cli.spark.jars` brings them and prints their paths. The same way come
PostgreSQL's JDBC driver (`postgres.xml`) into `.cache/spark-postgres/`, 1 MB, and what writes
tables in the formats Iceberg (`iceberg.xml`, 47 MB) and Delta (`delta.xml`, 8 MB). Their versions
follow the release of the pyspark that is installed (`RELEASES`).

Under spark-submit the jars are the submitter's to name (`--jars`), or lie in the image: then
nothing is brought, and Maven need not be there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cli.local.maven import Jars, JarsUnavailable
from spark_analytics.submitted import is_submitted

VERSION: Final = "4.1.3"
"""The pyspark of `infra/locks/spark.txt`, of the image, and of the charts: the newest of which
every jar can be had. The poms have the versions of its jars."""
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
"""By release: what takes the place of the poms' versions."""
FORMATS: Final = ("iceberg", "delta")
POSTGRES: Final = "jdbc:postgresql:"


def release() -> str:
    """The release of the pyspark that is installed; that of `VERSION` where none is."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        installed = VERSION
    return ".".join(installed.split(".")[:2])


def _of_release(pom: str, name: str) -> Jars:
    return Jars(Path(__file__).parent / pom, name, RELEASES.get(release(), {}))


_JARS = _of_release("kafka.xml", f"spark-{release()}")
_POSTGRES = Jars(Path(__file__).parent / "postgres.xml", "spark-postgres")
_LAKES = {kind: _of_release(f"{kind}.xml", f"spark-{release()}-{kind}") for kind in FORMATS}


def missing() -> str | None:
    """Why Spark cannot run here; None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark not found; run make spark-setup, or pip install -r infra/locks/spark.txt"
    if is_submitted():
        return None
    if release() not in RELEASES:
        return f"no jars are known for pyspark {release()}; install {' or '.join(RELEASES)}"
    no_jars = _JARS.missing()
    return no_jars and f"no Spark: {no_jars}"


def jars() -> list[str]:
    """Paths of the connector's jars; brings them first where they are not there yet.
    JarsUnavailable says why they cannot be had. None of them under spark-submit."""
    if is_submitted():
        return []
    return sorted(str(path) for path in _JARS.brought().glob("*.jar"))


def folder() -> Path:
    """Where `jars` lie, once they have been brought."""
    return _JARS.folder()


def postgres_jars() -> list[str]:
    """As `jars`, of the driver by which Iceberg's catalogs lie in PostgreSQL."""
    return _of(_POSTGRES, "JDBC driver of PostgreSQL")


def catalog_jars(catalog: str | None) -> list[str]:
    """As `jars`, of what a catalog at this address needs."""
    return postgres_jars() if (catalog or "").startswith(POSTGRES) else []


def lake_jars(kind: str) -> list[str]:
    """As `jars`, of what writes tables in the format `kind`: `iceberg` or `delta`."""
    return _of(_LAKES[kind], f"{kind.capitalize()} for Spark")


def _of(jars: Jars, what: str) -> list[str]:
    if is_submitted():
        return []
    absent = jars.missing()
    if absent is not None:
        raise JarsUnavailable(f"no {what}: {absent}")
    return sorted(str(path) for path in jars.brought().glob("*.jar"))


def main() -> None:
    """Bring the jars, and print the connector's paths by commas, as `spark.jars` wants them."""
    absent = missing()
    if absent is not None:
        print(absent, file=sys.stderr)
        sys.exit(os.environ.get("CI") == "true")
    try:
        postgres_jars()
        for kind in FORMATS:
            lake_jars(kind)
        print(",".join(jars()))
    except JarsUnavailable as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main()
