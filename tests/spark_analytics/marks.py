"""What every test on Spark is marked with."""

from __future__ import annotations

import pytest

BOTH = [
    pytest.mark.slow,
    # pyspark leaves the sockets by which it collects rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
"""The marks of `spark` and of `spark_long`."""

SPARK = [pytest.mark.spark, *BOTH]
