"""The statements of docs/guides/spark.md that keep tables fit, run on a table of a test."""

from __future__ import annotations

import re

from spark_analytics.tables.lake import IcebergLake, Lake
from tests import ROOT

PAGE = (ROOT / "docs/guides/spark.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^\*\*(Iceberg|Delta)\*\*.*?^```sql\n(.*?)^```", re.M | re.S)
STATEMENTS = {
    match[1].lower(): match[2].split(";\n")[:-1]
    for match in BLOCK.finditer(PAGE.partition("\n### Upkeep")[2].partition("\n## ")[0])
}


def keep_up(lake: Lake, first: str = "events", second: str = "windows_current") -> None:
    """Run all statements of the lake's format; `first` and `second` stand for the page's tables."""
    for statement in STATEMENTS[lake.kind]:
        own = statement.replace("/data/lake/events/events", f"{lake.place}/{first}")
        if isinstance(lake, IcebergLake):
            own = own.replace("CALL inorder", f"CALL {lake.catalog}")
            for name, table in (("events", first), ("windows_current", second)):
                own = own.replace(f"'events.{name}'", f"'{lake.name(table).partition('.')[2]}'")
        lake.spark.sql(own).collect()
