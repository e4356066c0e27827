"""What the parts of a backfill are told of the topology: its file's text.

The text goes to executors and is what a state is good for: one that was made by another file, or by
other functions, is not gone on with.

Proved by: tests/spark_analytics/backfill/test_resumed.py
"""

from __future__ import annotations

import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cli.user_functions.load import bring
from topology.config import Topology, parse


class Setting(NamedTuple):
    """The topology file's text, and that of the file of functions that it names, as its path from
    there (both empty: none)."""

    topology: str
    functions: str = ""
    functions_path: str = ""


@cache
def topology_of(setting: Setting) -> Topology:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "functions.py"
        file.write_text(setting.functions)
        return parse(setting.topology, lambda _: bring(file))


def setting_of(path: str, topology: Topology) -> Setting:
    """What tasks are told of the topology file at `path`."""
    functions = topology.functions
    if not functions:
        return Setting(Path(path).read_text(encoding="utf-8"))
    own = Path(path).parent / functions
    return Setting(Path(path).read_text(encoding="utf-8"), own.read_text(), functions)


def digest(setting: Setting) -> str:
    """What a state is good for."""
    return sha256("\0".join(setting).encode()).hexdigest()
