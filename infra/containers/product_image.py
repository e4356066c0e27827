"""Builds the project's own image from its Dockerfile, as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infra.containers.engine import Engine

NAME: Final = "inorder"
ROOT: Final = Path(__file__).parents[2]
BUILD_TIMEOUT_S: Final = 3000.0


def build(engine: Engine) -> str:
    """Build the image and return its name; the engine's cache has the layers that did not change.

    Raises CommandFailed if the build fails.
    """
    words = ("build", "--network", "host", "--tag", NAME, str(ROOT))
    engine.docker(*words, timeout_s=BUILD_TIMEOUT_S)
    return NAME
