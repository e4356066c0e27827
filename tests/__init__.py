"""Tests stand where their modules stand: `tests/<room>/…/test_x.py` beside `<room>/…/x.py`."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Where the project lies."""
