"""Law: functions are named by verbs. A bare participle says what came of it, not what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests import ROOT

ROOMS = (
    *("agents", "benchmarks", "cli", "codec", "docs", "infra", "inorder", "producers"),
    *("recordings", "sinks", "spark_analytics", "topology"),
)
MOST_SHARE = 0.01
"""Rules of a grammar, and names that users know, remain."""

IRREGULAR = frozenset(
    (
        *("begun", "bound", "broken", "brought", "built", "caught", "chosen", "done", "drawn"),
        *("driven", "fallen", "fed", "forgotten", "found", "frozen", "given", "gone", "grown"),
        *("heard", "held", "hidden", "kept", "known", "laid", "led", "left", "lost", "made", "met"),
        *("paid", "proven", "said", "seen", "sent", "shown", "sold", "spelled", "spent", "stood"),
        *("struck", "taken", "thrown", "told", "torn", "understood", "won", "written"),
    )
)
VERBS = frozenset({"exceed", "embed", "feed", "heed", "need", "proceed", "seed", "speed"})
ATTRIBUTES = frozenset({"cached_property", "property", "setter"})
"""Decorators of functions that are read as attributes."""


def functions() -> Iterator[tuple[str, str]]:
    """The file and the name of each function that is called as one."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    decorators = {
                        ast.unparse(each).rpartition(".")[2] for each in node.decorator_list
                    }
                    if not decorators & ATTRIBUTES:
                        yield str(file.relative_to(ROOT)), node.name


def is_participle(name: str) -> bool:
    bare = name.strip("_")
    return bare in IRREGULAR or (bare.endswith("ed") and "_" not in bare and bare not in VERBS)


def test_functions_are_named_by_verbs() -> None:
    named = list(functions())
    participles = [(file, name) for file, name in named if is_participle(name)]
    assert len(participles) <= MOST_SHARE * len(named), participles
