"""Make Spark compute a column once, in the projection that defines it.

Spark pushes a filter below the projection that makes its column. The inputs of that column are then
computed in the filter, once per mention, and again above the filter. Spark also merges two
projections if it considers that cheaper. An expression that Spark considers nondeterministic stays
in its projection. This pays off for costly columns, such as parsed JSON and the faults of a record.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def compute_once(column: Column) -> Column:
    """Return the same column, marked so that Spark considers it nondeterministic."""
    return F.when(F.spark_partition_id() >= 0, column)
