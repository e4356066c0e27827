"""Marks for tests on Spark."""

from __future__ import annotations

import pytest

BOTH = [
    pytest.mark.slow,
    # pyspark leaves the sockets through which it collects rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
"""The marks of `spark` and of `spark_long`."""

SPARK = [pytest.mark.spark, *BOTH]
