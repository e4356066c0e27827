"""What every test on Spark is marked with."""

from __future__ import annotations

import pytest

SPARK = [
    pytest.mark.spark,
    pytest.mark.slow,
    # pyspark leaves the sockets by which it collects rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
