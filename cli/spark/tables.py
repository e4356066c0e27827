"""Tables of Iceberg and Delta on the command line: formats, a catalog's secrets, `maintain`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cli.spark.jars import catalog_jars, jars, lake_jars
from cli.spark.spelled import length_of, settings_of
from spark_analytics.tables.catalog import FORMATS, Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC_SECRETS: Final = {"jdbc.user": "INORDER_JDBC_USER", "jdbc.password": "INORDER_JDBC_PASSWORD"}
REST_SECRETS: Final = {"token": "INORDER_CATALOG_TOKEN", "credential": "INORDER_CATALOG_CREDENTIAL"}

OpenSession = Callable[[Callable[[], "SparkSession"]], AbstractContextManager["SparkSession"]]


def formats(names: Sequence[str]) -> list[Format]:
    """Those of the table formats that are among `names`."""
    return [kind for kind in FORMATS if kind in names]


def secrets_of(catalog: str | None) -> dict[str, str]:
    """What a catalog asks for, from the environment."""
    if catalog is None:
        return {}
    said = JDBC_SECRETS if catalog.startswith("jdbc:") else REST_SECRETS
    found = {name: os.environ.get(variable) for name, variable in said.items()}
    return {name: value for name, value in found.items() if value}


def maintained(
    out: str,
    kind: str,
    catalog: str | None,
    keep: str,
    orphans: str,
    master: str | None,
    conf: Sequence[str],
    opened: OpenSession,
) -> dict[str, dict[str, int]]:
    """What was done to each table below `out`."""
    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import catalog_of, settings
    from spark_analytics.tables.maintain import maintain, require_long

    (wanted,) = formats([kind])
    now = datetime.now(UTC)
    keep_since, orphans_since = now - _length("--keep", keep), now - _length("--orphans", orphans)
    found = {**settings(wanted), **settings_of(conf)}
    if master is not None:
        found["spark.master"] = master
    if wanted == "delta":
        require_long(keep_since, found)
    needed = [*jars(), *lake_jars(kind), *catalog_jars(catalog)]
    where = catalog_of(catalog, secrets_of(catalog))
    with opened(lambda: new_session("inorder maintain", needed, found)) as spark:
        return maintain(spark, wanted, out.rstrip("/"), where, keep_since, orphans_since)


def _length(option: str, text: str) -> timedelta:
    return timedelta(microseconds=length_of(text, option) // 1_000)
