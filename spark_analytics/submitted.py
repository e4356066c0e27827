"""Detect whether spark-submit has started this program; its settings then override ours."""

from __future__ import annotations

import os
from typing import Final

LAUNCHED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable that spark-submit sets for the Python program that it starts."""


def is_submitted() -> bool:
    return LAUNCHED in os.environ
