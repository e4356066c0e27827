"""Where tables lie, who keeps their names, and what a session needs to write them.

A *place* is a folder (`/data/out`, `hdfs:///out`): its tables are `<place>/<table>`. Delta needs
no more; its log lies beside the data. Iceberg has a catalog, which settles what a table's newest
state is:

| `--catalog`                 | kind   | for                                                       |
|-----------------------------|--------|-----------------------------------------------------------|
| none                        | Hadoop | file systems whose rename is one step: local, HDFS        |
| `jdbc:postgresql://HOST/DB` | JDBC   | object stores; needs its driver's jar in the session      |
| `http://…`, `https://…`     | REST   | object stores, many engines                               |

A Hadoop catalog on an object store is refused: two commits at once would lose one. The name of
the catalog in SQL is `inorder`, the place's last folder its namespace: `inorder.out.events`.
A second place of one session is `inorder_2`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal

from pyspark.sql import SparkSession

Format = Literal["iceberg", "delta"]

FORMATS: Final[tuple[Format, ...]] = ("iceberg", "delta")
NAME: Final = "inorder"

EXTENSIONS: Final[Mapping[Format, str]] = {
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
}
EXTENSIONS_SETTING: Final = "spark.sql.extensions"
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
ICEBERG_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
JDBC_SECRETS: Final = {"jdbc.user": "INORDER_JDBC_USER", "jdbc.password": "INORDER_JDBC_PASSWORD"}
REST_SECRETS: Final = {"token": "INORDER_CATALOG_TOKEN", "credential": "INORDER_CATALOG_CREDENTIAL"}
RENAMES_IN_STEPS: Final = ("s3", "s3a", "s3n", "gs", "wasb", "wasbs")


class TablesRefused(ValueError):
    """The tables cannot be written as asked; the message says what to do instead."""


@dataclass(frozen=True)
class Catalog:
    """Iceberg's; `uri` is null for Hadoop's, `properties` are the catalog's own words
    (`jdbc.user`, `jdbc.password`, `token`)."""

    kind: Literal["hadoop", "jdbc", "rest"] = "hadoop"
    uri: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def catalog_of(text: str | None) -> Catalog:
    """What `--catalog` says, with secrets from the environment; TablesRefused where it is no
    catalog's address."""
    if text is None:
        return Catalog()
    if text.startswith("jdbc:"):
        return Catalog("jdbc", text, _secrets(JDBC_SECRETS))
    if text.startswith(("http://", "https://")):
        return Catalog("rest", text, _secrets(REST_SECRETS))
    raise TablesRefused(
        f"--catalog {text}: write jdbc:postgresql://HOST/DATABASE, or http://HOST:PORT of a REST"
        " catalog, or leave it out where files are renamed in one step"
    )


def _secrets(names: Mapping[str, str]) -> Mapping[str, str]:
    found = {name: os.environ.get(variable) for name, variable in names.items()}
    return {name: value for name, value in found.items() if value}


def settings(*formats: Format) -> dict[str, str]:
    """What a session needs from its start to write tables of these formats."""
    found = {
        EXTENSIONS_SETTING: ",".join(EXTENSIONS[each] for each in formats),
        # Spark 4.1 puts parameters into the text of SQL; the parsers of both pass it on without.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }
    if "delta" in formats:
        found["spark.sql.catalog.spark_catalog"] = DELTA_CATALOG
        # Delta would otherwise begin a job for each of 50 slices of a log of a few files.
        found["spark.databricks.delta.snapshotPartitions"] = "2"
    return found


def parts_of(place: str) -> tuple[str, str]:
    """A place as the folder above it and its own name."""
    above, slash, name = place.rstrip("/").rpartition("/")
    if not name:
        raise TablesRefused(f"{place}: name a folder for the tables")
    return above or slash or ".", name


def require_extension(spark: SparkSession, kind: Format) -> None:
    if EXTENSIONS[kind] not in (spark.conf.get(EXTENSIONS_SETTING, "") or ""):
        raise TablesRefused(
            f"this Spark session cannot write {kind}: start it with spark_analytics.tables.catalog."
            f"settings({kind!r}) and the jars of cli.spark.jars.lake_jars({kind!r})"
        )


def declare_catalog(spark: SparkSession, catalog: Catalog, warehouse: str) -> str:
    """Make the catalog known to the session; its name there. One that is known already by the
    same settings keeps its name."""
    scheme = warehouse.partition("://")[0] if "://" in warehouse else ""
    if catalog.kind == "hadoop" and scheme in RENAMES_IN_STEPS:
        raise TablesRefused(
            f"{warehouse}: a rename on {scheme}: is not one step, so two commits could lose one;"
            " name a --catalog (jdbc:… or http://…), or write --format delta"
        )
    # Without a cache: another query of this process may have written since.
    wanted = {"type": catalog.kind, "warehouse": warehouse, "cache-enabled": "false"}
    if catalog.kind == "jdbc":
        wanted["jdbc.schema-version"] = "V1"  # the older layout has no views, and Spark asks
    wanted |= catalog.properties
    if catalog.uri is not None:
        wanted["uri"] = catalog.uri
    wanted = {f".{key}": value for key, value in wanted.items()} | {"": ICEBERG_CATALOG}

    def takes(name: str) -> bool:
        prefix = f"spark.sql.catalog.{name}"
        is_same = all(spark.conf.get(f"{prefix}{key}", None) == wanted[key] for key in wanted)
        return is_same or spark.conf.get(prefix, None) is None

    names = (NAME if number == 1 else f"{NAME}_{number}" for number in count(1))
    name = next(filter(takes, names))
    for key, value in wanted.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name
