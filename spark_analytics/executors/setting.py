"""The topology as the parts of a backfill get it: its file's text.

The text goes to executors. What it means identifies a state, part by part (`digests`): a state that
another stream, query or function has made is not used.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from agents.user_functions import bring
from topology.config import Topology, parse
from topology.config.chains import patterns_read
from topology.flow.replay import groups
from topology.spelling.section import key_of


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


ELSEWHERE: Final = frozenset(
    (
        "application", "checkpoint_ns", "delivery", "redis", "spill_after_ns",
        "stages_written", "state", "tick_lag_ns", "transaction_timeout_ns",
    )
)  # fmt: skip
"""Keys of how workers run: they change no line of a replay."""
TOPICS_READ: Final = ("clock", "max_record_bytes")
"""The keys of `topics` that change what is read."""


QUERIES: Final = "queries."
"""Leads the names of queries among the parts of a topology."""
OPERATORS: Final = "operators"
"""The part by whose order a state names who holds an event."""


class Difference(NamedTuple):
    """What two topologies do not share: the names of queries that came and that left, and the other
    parts, by their path in the topology file. `again`: the state of the one is of no use to the
    other, so the history has to be read again: queries came, or the last of a kind left."""

    came: frozenset[str]
    left: frozenset[str]
    other: list[str]
    again: bool


def digests(setting: Setting) -> dict[str, str]:
    """What a state was made by, in parts: a digest of each stream and each query with the patterns
    whose matches it reads, of the functions, of the streams that joins tie together, of the
    operators, and of what else changes the answers, by its path in the topology file. A part whose
    meaning is the same has the same digest, however it is spelled."""
    topology = topology_of(setting)
    parts: dict[str, object] = {"joined streams": groups(topology), OPERATORS: topology.operators}
    for name in type(topology).model_fields:
        value = getattr(topology, name)
        if name in ("streams", "queries"):
            parts |= {f"{name}.{key}": each for key, each in value.items()}
        elif name == "topics":
            parts[name] = [getattr(value, key) for key in TOPICS_READ]
        elif name == "functions":
            parts[name] = ast.dump(ast.parse(setting.functions))
        elif name not in ELSEWHERE:
            parts[key_of(name)] = value
    for name in topology.queries:
        if read := patterns_read(topology, name):
            parts[f"{QUERIES}{name}"] = topology.queries[name], read
    return {name: sha256(repr(part).encode()).hexdigest() for name, part in parts.items()}


def difference(were: Mapping[str, str], are: Mapping[str, str]) -> Difference:
    """What the topology of the digests `are` has otherwise than that of `were`."""

    def queries(names: Iterable[str]) -> frozenset[str]:
        return frozenset(n.removeprefix(QUERIES) for n in names if n.startswith(QUERIES))

    came, left = queries(are.keys() - were), queries(were.keys() - are)
    either = {f"{QUERIES}{name}" for name in came | left}
    parts = {name for name in (were.keys() | are) - either if were.get(name) != are.get(name)}
    again = bool(came) or OPERATORS in parts
    return Difference(came, left, sorted(parts - {OPERATORS}), again)
