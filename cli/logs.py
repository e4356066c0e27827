"""Logs of the long-running commands: plain lines on standard error."""

from __future__ import annotations

import logging
import sys


def set_up(name: str, verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format=f"%(asctime)s {name} %(levelname)s %(message)s",
    )
