"""Example: where the compiled codec can be built it is, so that its tests never go unseen."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(
    not (shutil.which("cc") and find_spec("Cython")),
    reason="without a C compiler and Cython the codec stays in Python",
)
def test_the_codec_is_built_where_it_can_be() -> None:
    assert find_spec("codec.native.records") is not None, "run `make setup`, which builds it"
