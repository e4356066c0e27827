"""Columns that are computed once, where they are made.

Spark pushes a filter below the projection that makes its column, and computes in the filter all
that it is made of, as often as it is spoken of there, and then again above; two projections become
one where it takes that for cheaper. What it takes for not deterministic it leaves where it is.
Reading JSON is worth it, and so are the faults of a record.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def once(column: Column) -> Column:
    """The column itself, on every row; Spark does not see that."""
    return F.when(F.spark_partition_id() >= 0, column)
