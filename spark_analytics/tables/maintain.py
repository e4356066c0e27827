"""Keeping tables fit: few files, no states of long ago, nothing that killed jobs have left.

For each table of a folder that jobs write to (`<out>/<job>/<table>`), or of one that holds tables
itself, as a backfill's does (`<out>/<table>`):

| step    | Iceberg                                            | Delta                       |
|---------|----------------------------------------------------|-----------------------------|
| compact | small files and position deletes rewritten, sorted | `OPTIMIZE`                  |
| expire  | snapshots before `keep_since`, but the newest      | `VACUUM`, by the same time  |
| orphans | files that no snapshot names, from before          | `VACUUM` takes them as well |
|         | `orphans_since`                                    |                             |

It may run beside the jobs, and be killed at any point: each step is a commit of its own. A rewrite
that a job's commit has overtaken is given up, as `overtaken`, and the next run does it. Before
snapshots go, the newest batch of each query is written to the table's properties, so that a job
which starts again still knows it. Readers of a state that expired fail.

Iceberg takes no time for orphans that is less than a day ago: a write which goes on has files that
no snapshot names yet. `VACUUM` takes such too, so Delta keeps a week at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from spark_analytics.jobs.errors import first_line
from spark_analytics.tables.bounds import quoted
from spark_analytics.tables.catalog import Catalog, Format, TablesRefused
from spark_analytics.tables.lake import BATCH, OWNER, DeltaLake, IcebergLake, Lake

MIN_FILES: Final = 5
"""Fewer small files of a partition are left alone."""

OWN: Final = "maintain"
"""Maintenance owns no table."""

OVERTAKEN: Final = "overtaken"
CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
LEAST_HOURS: Final = 168
"""Delta's own bound (`delta.deletedFileRetentionDuration`)."""

ABSENT: Final = ("NoSuchNamespace", "SCHEMA_NOT_FOUND")
CONFLICTS: Final = ("ValidationException", "CommitFailedException", "Concurrent")


def maintain(
    spark: SparkSession,
    kind: Format,
    out: str,
    catalog: Catalog,
    keep_since: datetime,
    orphans_since: datetime,
) -> dict[str, dict[str, int]]:
    """What was done, by table (`rates/windows`); TablesRefused if there is no table of ours."""
    done: dict[str, dict[str, int]] = {}
    for lake, table in ours(spark, kind, out, catalog):
        name = f"{lake.place.rpartition('/')[2]}/{table}"
        if isinstance(lake, IcebergLake):
            done[name] = _iceberg(lake, table, keep_since, orphans_since)
        else:
            done[name] = _delta(lake, table, keep_since)
    if not done:
        raise TablesRefused(f"{out} has no table of {kind}; name the --out that jobs write to")
    return done


def ours(
    spark: SparkSession, kind: Format, out: str, catalog: Catalog
) -> Iterator[tuple[Lake, str]]:
    """The lakes and names of our tables below `out`, job by job, and in it."""
    if kind == "delta":
        for place, names in sorted(_delta_tables(spark, out).items()):
            delta = DeltaLake(spark, place, OWN)
            yield from ((delta, name) for name in sorted(names) if OWNER in delta.properties(name))
        return
    whole = IcebergLake(spark, f"{out}/{OWN}", OWN, catalog, make=False)
    places = [
        f"{out}/{row.namespace.strip('`')}"
        for row in _there(out, lambda: spark.sql(f"SHOW NAMESPACES IN {whole.catalog}").collect())
    ]
    if catalog.kind == "hadoop":  # the other catalogs have listed all their tables
        places.append(out)
    for place in places:
        lake = IcebergLake(spark, place, OWN, catalog, make=False)
        tables = _there(place, lake.tables)
        yield from ((lake, name) for name in tables if OWNER in lake.properties(name))


def _there(place: str, listed: Callable[[], list[Any]]) -> list[Any]:
    """What a catalog lists, sorted; nothing where the place is not there."""
    try:
        return sorted(listed())
    except (PySparkException, Py4JError) as error:
        if any(word in str(error) for word in ABSENT):
            return []
        raise TablesRefused(f"the catalog of {place} cannot be used: {first_line(error)}") from None


def _delta_tables(spark: SparkSession, out: str) -> dict[str, set[str]]:
    """Tables in `out` and two folders below it, by the folder above them."""
    found: dict[str, set[str]] = {}
    for tables in (f"{out}/*", f"{out}/*/*"):
        try:
            logs = spark.read.format("binaryFile").option("pathGlobFilter", "*.json")
            rows = logs.load(f"{tables}/_delta_log").select("path").collect()
        except AnalysisException:
            continue
        for row in rows:
            place, table, _, _ = row.path.removeprefix("file:").rsplit("/", 3)
            found.setdefault(place, set()).add(table)
    return found


def _iceberg(
    lake: IcebergLake, table: str, keep_since: datetime, orphans_since: datetime
) -> dict[str, int]:
    _keep_marks(lake, table)
    named = f"table => '{quoted(lake.place.rpartition('/')[2])}.{quoted(table)}'"
    done: dict[str, int] = {}
    properties = lake.properties(table)
    strategy = ", strategy => 'sort'" if "sort-order" in properties else ""
    options = f", options => map('min-input-files', '{MIN_FILES}', 'delete-file-threshold', '1')"
    rewritten = _unless_overtaken(lake, f"rewrite_data_files({named}{strategy}{options})", done)
    if rewritten is not None:
        done["files made fewer"] = (
            rewritten.rewritten_data_files_count - rewritten.added_data_files_count
        )
    deletes = _unless_overtaken(lake, f"rewrite_position_delete_files({named})", done)
    if deletes is not None:
        done["delete files rewritten"] = deletes.rewritten_delete_files_count
    _unless_overtaken(lake, f"rewrite_manifests({named})", done)
    expired = lake.procedure(
        f"expire_snapshots({named}, older_than => {_stamp(keep_since)}, retain_last => 1)"
    ).collect()[0]
    done["files expired"] = (
        expired.deleted_data_files_count + expired.deleted_position_delete_files_count
    )
    orphans = lake.procedure(f"remove_orphan_files({named}, older_than => {_stamp(orphans_since)})")
    done["orphans removed"] = orphans.count()
    return done


def _unless_overtaken(lake: IcebergLake, call: str, done: dict[str, int]) -> Any:
    try:
        return lake.procedure(call).collect()[0]
    except (PySparkException, Py4JError) as error:
        if not any(word in str(error) for word in CONFLICTS):
            raise
        done[OVERTAKEN] = done.get(OVERTAKEN, 0) + 1
        return None


def _keep_marks(lake: IcebergLake, table: str) -> None:
    kept = lake.properties(table)
    newer = {
        f"{BATCH}.{query}": batch
        for query, batch in lake.marks(table).items()
        if batch > int(kept.get(f"{BATCH}.{query}", -1))
    }
    if newer:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in newer.items())
        lake.spark.sql(f"ALTER TABLE {lake.name(table)} SET TBLPROPERTIES ({properties})")


def _delta(lake: Lake, table: str, keep_since: datetime) -> dict[str, int]:
    spark = lake.spark
    metrics = spark.sql(f"OPTIMIZE {lake.name(table)}").select("metrics").collect()[0].metrics
    hours = _hours(keep_since)
    before = _files(spark, lake, table)
    spark.sql(f"VACUUM {lake.name(table)} RETAIN {hours} HOURS").collect()
    return {
        "files made fewer": metrics.numFilesRemoved - metrics.numFilesAdded,
        "files expired": before - _files(spark, lake, table),
    }


def _hours(since: datetime) -> int:
    return max(0, round((datetime.now(UTC) - since).total_seconds() / 3_600))


def require_long(keep_since: datetime, settings: Mapping[str, str]) -> None:
    """TablesRefused where `VACUUM` would be, amid the work; `settings`: those of the session."""
    is_checked = settings.get(CHECK, "true") != "false"
    if is_checked and _hours(keep_since) < LEAST_HOURS:
        raise TablesRefused(
            f"--keep: Delta keeps {LEAST_HOURS // 24} days, as VACUUM also takes files of writes"
            " that are not done; write --keep 7d, or, where nobody writes meanwhile, --conf"
            f" {CHECK}=false"
        )


def _files(spark: SparkSession, lake: Lake, table: str) -> int:
    files = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
    rows = files.option("recursiveFileLookup", "true").load(f"{lake.place}/{table}")
    return rows.select("path").count()


def _stamp(at: datetime) -> str:
    return f"TIMESTAMP '{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
