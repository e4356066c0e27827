"""Laws: functions are named by verbs, not by a bare participle, and names of tests are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from statistics import median

from tests import ROOT

ROOMS = (
    *("agents", "benchmarks", "cli", "codec", "docs", "infra", "inorder", "producers"),
    *("recordings", "sinks", "spark_analytics", "topology"),
)
MOST_CHARACTERS = 40
"""Names of tests have a subject and a behavior; their file and folder say the rest."""
MOST_MEDIAN_CHARACTERS = 32
ARTICLES = ("test_a_", "test_an_", "test_the_")
MOST_SHARE = 0.01
"""The share of participles that may remain: rules of a grammar, and names that users know."""

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
    """Yield the file and name of each function that is not read as an attribute."""
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


def test_test_names_are_short() -> None:
    names = {
        (str(file.relative_to(ROOT)), node.name)
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }
    assert [each for each in sorted(names) if len(each[1]) > MOST_CHARACTERS] == []
    assert [each for each in sorted(names) if each[1].startswith(ARTICLES)] == []
    assert median(len(name) for _, name in names) <= MOST_MEDIAN_CHARACTERS
