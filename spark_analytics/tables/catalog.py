"""Name the folders of tables and their catalogs, and the session settings needed to write them.

A *place* is a folder (`/data/out`, `hdfs:///out`) with the tables `<place>/<table>`. Delta needs
nothing else, as its log is beside the data. Iceberg has a catalog, which determines the newest
state of a table:

| `--catalog`                 | kind   | for                                                       |
|-----------------------------|--------|-----------------------------------------------------------|
| none                        | Hadoop | file systems whose rename is one step: local, HDFS        |
| `jdbc:postgresql://HOST/DB` | JDBC   | object stores; needs its driver's jar in the session      |
| `http://…`, `https://…`     | REST   | object stores, many engines                               |

A Hadoop catalog on an object store is refused, since one of two concurrent commits would be lost.
The name of the catalog in SQL is `inorder`, and the last folder of the place is its namespace:
`inorder.out.events`. A session names its second catalog `inorder_2`.
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
    """The error of tables that cannot be written as requested; the message says what to do."""


@dataclass(frozen=True)
class Catalog:
    """A catalog of Iceberg.

    Attributes:
        kind: The kind of catalog.
        uri: Its address; None for a Hadoop catalog.
        properties: Properties by the catalog's own names (`jdbc.user`, `jdbc.password`, `token`).
    """

    kind: Literal["hadoop", "jdbc", "rest"] = "hadoop"
    uri: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def catalog_of(text: str | None) -> Catalog:
    """Parse `--catalog`, with secrets from the environment.

    Raises:
        TablesRefused: The text is not a catalog's address.
    """
    if text is None:
        return Catalog()
    if text.startswith("jdbc:"):
        return Catalog("jdbc", text, _read_secrets(JDBC_SECRETS))
    if text.startswith(("http://", "https://")):
        return Catalog("rest", text, _read_secrets(REST_SECRETS))
    raise TablesRefused(
        f"--catalog {text}: is not an address; write jdbc:postgresql://HOST/DATABASE, or"
        " http://HOST:PORT of a REST catalog, or leave it out if a rename of a file is one step"
    )


def _read_secrets(names: Mapping[str, str]) -> Mapping[str, str]:
    found = {name: os.environ.get(variable) for name, variable in names.items()}
    return {name: value for name, value in found.items() if value}


def settings(*formats: Format) -> dict[str, str]:
    """Return the settings that a session needs at its start to write tables of these formats."""
    found = {
        EXTENSIONS_SETTING: ",".join(EXTENSIONS[each] for each in formats),
        # Spark 4.1 substitutes parameters in the text of SQL; both formats' parsers then pass the
        # text on without them.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }
    if "delta" in formats:
        found["spark.sql.catalog.spark_catalog"] = DELTA_CATALOG
        # Delta would otherwise split a log of a few files into 50 slices, each with its own task.
        found["spark.databricks.delta.snapshotPartitions"] = "2"
    return found


def split_path(place: str) -> tuple[str, str]:
    """Split the path of a folder into that of its parent and its own name.

    Raises:
        TablesRefused: The path has no name.
    """
    above, slash, name = place.rstrip("/").rpartition("/")
    if not name:
        raise TablesRefused(f"{place}: is not the name of a folder; name a folder for the tables")
    return above or slash or ".", name


def require_extension(spark: SparkSession, kind: Format) -> None:
    if EXTENSIONS[kind] not in (spark.conf.get(EXTENSIONS_SETTING, "") or ""):
        raise TablesRefused(
            f"this Spark session cannot write {kind}: start it with spark_analytics.tables.catalog."
            f"settings({kind!r}) and the jars of cli.spark.jars.fetch_lake_jars({kind!r})"
        )


def declare_catalog(spark: SparkSession, catalog: Catalog, warehouse: str) -> str:
    """Declare the catalog to the session, and return its name there.

    A catalog that is already declared with the same settings keeps its name.
    """
    scheme = warehouse.partition("://")[0] if "://" in warehouse else ""
    if catalog.kind == "hadoop" and scheme in RENAMES_IN_STEPS:
        raise TablesRefused(
            f"{warehouse}: a rename on {scheme}: is not one step, so one of two commits could be"
            " lost; name a --catalog (jdbc:… or http://…), or write --format delta"
        )
    # Caching is off, because another query of this process may have changed a table.
    wanted = {"type": catalog.kind, "warehouse": warehouse, "cache-enabled": "false"}
    if catalog.kind == "jdbc":
        # Spark queries views, which need this version of the schema.
        wanted["jdbc.schema-version"] = "V1"
    wanted |= catalog.properties
    if catalog.uri is not None:
        wanted["uri"] = catalog.uri
    wanted = {f".{key}": value for key, value in wanted.items()} | {"": ICEBERG_CATALOG}

    def is_free(name: str) -> bool:
        prefix = f"spark.sql.catalog.{name}"
        is_same = all(spark.conf.get(f"{prefix}{key}", None) == wanted[key] for key in wanted)
        return is_same or spark.conf.get(prefix, None) is None

    names = (NAME if number == 1 else f"{NAME}_{number}" for number in count(1))
    name = next(filter(is_free, names))
    for key, value in wanted.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name
