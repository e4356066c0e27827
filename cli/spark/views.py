"""`inorder spark views` prints SQL that gives the tables of a backfill typed columns."""

from __future__ import annotations

import click

from cli.spark.options import format_option, schema_option
from cli.topology_file import Refused, load, refusing, topology_option
from spark_analytics.tables.views import DIALECTS, Dialect, ViewsRefused, schema_of, views

FILES = {
    ("spark", "parquet"): "parquet.`{folder}/{table}`",
    ("spark", "delta"): "delta.`{folder}/{table}`",
    ("duckdb", "parquet"): "read_parquet('{folder}/{table}/*.parquet')",
    ("duckdb", "delta"): "delta_scan('{folder}/{table}')",
}
"""The text after FROM that reads a table in a folder, by engine and format."""


@click.command("views")
@topology_option
@click.option(
    "--in",
    "folder",
    envvar="INORDER_SPARK_VIEWS_IN",
    metavar="DIR",
    help="Folder that a backfill wrote (--out).",
)
@format_option("VIEWS")
@click.option(
    "--tables", metavar="CATALOG.SCHEMA", help="Place of the tables in a catalog, instead of --in."
)
@click.option("--dialect", type=click.Choice(DIALECTS), default="spark", help="Dialect of SQL.")
@schema_option
def command(
    topology_path: str,
    folder: str | None,
    form: str,
    tables: str | None,
    dialect: Dialect,
    schema: str | None,
) -> None:
    """Print SQL for one view of each query, with typed columns, over the tables of a backfill.

    With --schema, print one more view: typed_events.
    """
    topology = load(topology_path)
    if (folder is None) == (tables is None):
        raise Refused("give --in DIR, or --tables CATALOG.SCHEMA")
    table = f"{tables}.{{table}}" if folder is None else FILES.get((dialect, form))
    if table is None:
        raise Refused(f"--in: {dialect} reads tables of a catalog; give --tables CATALOG.SCHEMA")
    place = (folder or "").rstrip("/")
    sets = "match_sets" if folder is not None and form == "parquet" else "matches"
    if "'" in place or "`" in place:
        raise Refused(f"--in {place}: SQL cannot name it; rename the folder without quotes")

    def table_of(name: str) -> str:
        return table.format(folder=place, table=sets if name == "match_sets" else name)

    with refusing(ViewsRefused):
        fields = schema_of(schema or "")
        made = [*views(topology, dialect, table_of, fields)]
    for statement in made:
        click.echo(f"{statement};\n")
