"""Pass the topology to the tasks of a backfill, as its file's text.

A state is stored with digests of the topology's parts (`digests`), so that the state of another
stream, query or function is not used.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from agents.user_functions import load_functions
from topology.config import Topology, parse
from topology.config.chains import patterns_read
from topology.config.resolved import resolve_query, resolve_stream
from topology.spelling.section import key_of
from topology.stage.replay import group_all_streams


class Setting(NamedTuple):
    """The text of the topology file, and of the file of functions that it names (empty if none)."""

    topology: str
    functions: str = ""


@cache
def topology_of(setting: Setting) -> Topology:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "functions.py"
        file.write_text(setting.functions)
        return parse(setting.topology, lambda _: load_functions(file))


def setting_of(path: str, topology: Topology) -> Setting:
    """Return the setting for tasks, from the topology file at `path`."""
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
"""The keys of a topology that concern only running workers and do not change a replay's output."""
TOPICS_READ: Final = ("clock", "max_record_bytes")
"""The keys of `topics` that change which records are read."""


QUERIES: Final = "queries."
"""The prefix of a query's name in the names of a topology's parts."""
OPERATORS: Final = "operators"
"""The name of the part that has the order of the operators.

A state identifies the operators that buffer an event by their positions in this order.
"""


def digests(setting: Setting) -> dict[str, str]:
    """Return the digests of the parts of a topology that determine a state, by name.

    Each stream is a part, and so is each query with the patterns whose matches it reads. Further
    parts are the functions, the streams that joins connect and the operators. Any other key that
    changes the results is a part under its path in the topology file. Parts with the same meaning
    have the same digest, however they are written.
    """
    topology = topology_of(setting)
    parts: dict[str, object] = {
        "joined streams": group_all_streams(topology),
        OPERATORS: topology.operators,
    }
    for name in type(topology).model_fields:
        value = getattr(topology, name)
        if name == "streams":
            parts |= {f"{name}.{key}": resolve_stream(topology, key) for key in value}
        elif name == "queries":
            named = value.items()
            parts |= {f"{name}.{key}": resolve_query(topology, key, each) for key, each in named}
        elif name == "topics":
            parts[name] = [getattr(value, key) for key in TOPICS_READ]
        elif name == "functions":
            parts[name] = ast.dump(ast.parse(setting.functions))
        elif name not in ELSEWHERE:
            parts[key_of(name)] = value
    for name in topology.queries:
        if read := patterns_read(topology, name):
            parts[f"{QUERIES}{name}"] = parts[f"{QUERIES}{name}"], read
    return {name: sha256(repr(part).encode()).hexdigest() for name, part in parts.items()}


def difference(were: Mapping[str, str], are: Mapping[str, str]) -> list[str]:
    """Return the parts for which a state of the old topology does not fit the new one, by name.

    The arguments are the digests of both. A state still fits if queries were removed, unless one
    was the last of its kind.
    """
    removed = {name for name in were.keys() - are if name.startswith(QUERIES)}
    return sorted(n for n in (were.keys() | are) - removed if were.get(n) != are.get(n))
