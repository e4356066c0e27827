"""Tests mirror the packages: `tests/<package>/…/test_x.py` covers `<package>/…/x.py`."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Path of the project's root folder."""
