"""Example: the compiled codec is built wherever it can be, so that its tests are never skipped
unnoticed.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(
    not (shutil.which("cc") and find_spec("Cython")),
    reason="without a C compiler and Cython the codec stays in Python",
)
def test_codec_is_built_if_possible() -> None:
    assert find_spec("codec.native.records") is not None, "run `make setup`, which builds it"
