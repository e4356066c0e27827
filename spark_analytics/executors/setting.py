"""The topology as the parts of a backfill get it: its file's text.

The text goes to executors and identifies a state: a state of another file, or of other functions,
is not used.
"""

from __future__ import annotations

import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from agents.user_functions import bring
from topology.config import Topology, parse


class Setting(NamedTuple):
    """The topology file's text, and that of the file of functions that it names (empty: none)."""

    topology: str
    functions: str = ""


@cache
def topology_of(setting: Setting) -> Topology:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "functions.py"
        file.write_text(setting.functions)
        return parse(setting.topology, lambda _: bring(file))


def setting_of(path: str, topology: Topology) -> Setting:
    """The setting for tasks, from the topology file at `path`."""
    functions = topology.functions
    if not functions:
        return Setting(Path(path).read_text(encoding="utf-8"))
    own = Path(path).parent / functions
    return Setting(Path(path).read_text(encoding="utf-8"), own.read_text())


def digest(setting: Setting) -> str:
    """The digest that a state must have to be used."""
    return sha256("\0".join(setting).encode()).hexdigest()
