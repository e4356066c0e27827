"""Examples, without Spark: what of tables in a lake is settled before a session is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_analytics.backfill.in_lake import LakeTables
from spark_analytics.tables.catalog import TablesRefused
from topology.config import parse


@pytest.mark.parametrize("name", ["a[1]", "a*", "what?", "{a,b}", "a\\b"])
def test_a_folder_that_spark_takes_for_a_pattern_is_refused_at_the_start(name: str) -> None:
    lake: Any = SimpleNamespace(place=f"/tables/{name}")
    with pytest.raises(TablesRefused, match=r"^--out /tables/.*part of a pattern.*; name a folder"):
        LakeTables(lake, parse("streams: {default: {}}\n")).require(made=False)
