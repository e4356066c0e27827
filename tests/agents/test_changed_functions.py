"""Examples: a state is continued only by the functions that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from agents.user_functions import load_functions, make_loader
from cli.functions_text import read
from inorder.engine import Function
from topology.base.event import NO_EPOCH, Event
from topology.config import Topology, parse
from topology.stage.query_digest import query_digest
from topology.stage.replay import Replay

MS: Final = 1_000_000
START: Final = 1_700_000_000_000 * MS

FORMULAS: Final = '''\
"""What the site computes."""
from inorder.engine import Detector, Function

SCALE = {"of": 1}
UNUSED = 3

class Sum:
    """The whole."""
    def start(self):
        return 0

def scaled(value):
    """Take one event."""
    return value * SCALE["of"]  # in its unit

def added(state, value):
    return state + scaled(value)

def step(state, event):
    state += scaled(event.payload["v"])
    return state, {"sum": state}

aggregates = {"total": Function(Sum().start, added, lambda a, b: a + b, lambda s: s)}
functions = {"near": lambda a, b: scaled(abs(a - b)) < 99}
detectors = {"sums": Detector(step, 0)}
'''
TOPOLOGY: Final = """\
streams: {s: {clock: {unsynced: trust}, merge: {idle_after: 10ms}}}
functions: formulas.py
queries:
  w: {window: tumbling 4s, aggregate: {t: total(payload.v)}}
  n: {window: tumbling 4s, aggregate: {n: count()}}
  p: {pattern: "PATTERN SEQ(A a, B b) WHERE near(a.v, b.v) WITHIN 9 s"}
  q: {pattern: "PATTERN SEQ(A a, B b) WITHIN 9 s"}
  d: {detector: sums}
"""


def topology(folder: Path, formulas: str = FORMULAS, text: str = TOPOLOGY) -> Topology:
    (folder / "formulas.py").write_text(formulas)
    return parse(text, make_loader(folder))


def event(at: int) -> Event:
    made = Event("s", "a", NO_EPOCH, at, START + at * 1_000 * MS, START + at * 1_000 * MS)
    made.type = "A" if at < 3 else "B"
    made.value = b'{"v": 5}'
    made.offset = at
    return made


def found(old: Topology, new: Topology) -> dict[str, list[Any]]:
    """Return all results by query, in order.

    The old file reads the first events, and the new one continues from its state.
    """
    first, second = Replay(old), Replay(new)
    step = first.on_inputs([event(at) for at in range(3)])
    results = [] if step is None else [*step.results]
    saved = first.save()
    assert saved is not None
    second.restore(saved)
    for done in (second.on_inputs([event(at) for at in range(3, 12)]), second.on_end()):
        results += [] if done is None else done.results
    by_query: dict[str, list[Any]] = {}
    for each in results:
        by_query.setdefault(each.query, []).append(each)
    return by_query


def changed(old: Topology, new: Topology) -> set[str]:
    """Return the queries whose state is not continued."""
    return {name for name in new.queries if query_digest(old, name) != query_digest(new, name)}


CHANGES: Final = {
    "the function": ("return value * ", "return 7 + value * "),
    "what it calls": ('SCALE["of"]', '2 * SCALE["of"]'),
    "a value that it names": ('{"of": 1}', '{"of": 2}'),
    "that value, afterwards": ("UNUSED = 3", 'SCALE["of"] = 2'),
    "that value, by a call": ("UNUSED = 3", "SCALE.update(of=2)"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_function_restarts(tmp_path: Path, change: tuple[str, str]) -> None:
    old = topology(tmp_path)
    kept = found(old, topology(tmp_path))
    assert [one.values for one in kept["w"]] == [{"t": 20}] * 3
    assert [one.values for one in kept["n"]] == [{"n": 4}] * 3
    new = topology(tmp_path, FORMULAS.replace(*change))
    anew = found(old, new)
    each = 12 if "7" in change[1] else 10
    # Nothing that the old function has added is in the first window, if it is emitted at all.
    assert {one.values["t"] for one in anew["w"][:-2]} <= {each, 2 * each}
    assert [one.values for one in anew["w"][-2:]] == [{"t": 4 * each}] * 2
    assert [one.values for one in anew["n"]] == [{"n": 4}] * 3
    assert len(anew.get("p", [])) < len(kept["p"])  # Only later matches count.
    assert len(anew["q"]) == len(kept["q"]) > 0
    assert [one.values["sum"] for one in anew["d"]][-1] == 10 * each  # One event was buffered.
    assert changed(old, new) == {"w", "p", "d"}


ALIKE: Final = {
    "what it does not need": ("UNUSED = 3", "OTHER = 4"),
    "what only a program runs": ("UNUSED = 3", 'if __name__ == "__main__":\n    scaled(3)'),
}


@pytest.mark.parametrize("change", ALIKE.values(), ids=ALIKE)
def test_unrelated_change_keeps_state(tmp_path: Path, change: tuple[str, str]) -> None:
    old, new = topology(tmp_path), topology(tmp_path, FORMULAS.replace(*change))
    assert FORMULAS.replace(*change) != FORMULAS
    assert old.user_functions.texts == new.user_functions.texts
    assert changed(old, new) == set()


def test_change_keeps_result_ids(tmp_path: Path) -> None:
    old = topology(tmp_path)
    new = topology(tmp_path, FORMULAS.replace("UNUSED = 3", 'SCALE["of"] = 2'))
    ids = [
        {name: {one.id for one in results} for name, results in found(each, each).items()}
        for each in (old, new)
    ]
    assert ids[0] == ids[1]


def test_function_in_code_has_no_text(tmp_path: Path) -> None:
    own = topology(tmp_path).user_functions
    given = topology(tmp_path).with_functions(own.functions, own.aggregates, own.detectors)
    assert given.user_functions.texts == {}
    counting = Function(lambda: 0, lambda state, _: state + 1, lambda a, b: a + b)
    other = given.with_functions(own.functions, {"total": counting}, own.detectors)
    assert query_digest(given, "w") == query_digest(other, "w")
    assert query_digest(given, "w") != query_digest(topology(tmp_path), "w")


def test_unrun_file_gives_the_same_texts(tmp_path: Path) -> None:
    path = tmp_path / "formulas.py"
    path.write_text(FORMULAS)
    assert load_functions(path).texts == read(path).texts
    assert {kind: [*named] for kind, named in read(path).texts.items()} == {
        "aggregates": ["total"],
        "functions": ["near"],
        "detectors": ["sums"],
    }


@pytest.mark.parametrize(
    "computed",
    ["functions = dict([('x', one)])", "functions = {}\nfunctions.update(x=one)"],
)
def test_computed_mapping_counts_whole_file(tmp_path: Path, computed: str) -> None:
    path = tmp_path / "formulas.py"
    path.write_text(f"def one(a): return a\n{computed}\n")
    old = load_functions(path).texts
    path.write_text(f"def one(a): return a\n{computed}\nother = 3\n")
    assert load_functions(path).texts != old


def test_changed_input_query_restarts(tmp_path: Path) -> None:
    text = TOPOLOGY.replace("{detector: sums}", "{detector: sums, reads: [p]}")
    text = text.replace('"PATTERN SEQ(A a, B b) WITHIN 9 s"', '"PATTERN M m WITHIN 9 s"')
    text = text.replace(
        "near(a.v, b.v) WITHIN 9 s", "near(a.v, b.v) WITHIN 9 s RETURN a.v AS v INTO M"
    )
    old = topology(tmp_path, text=text)
    new = topology(tmp_path, FORMULAS.replace("< 99", "< 98"), text)
    assert changed(old, new) == {"p", "q", "d"}


def test_renamed_query_restarts(tmp_path: Path) -> None:
    old = topology(tmp_path)
    new = topology(tmp_path, text=TOPOLOGY.replace("streams: {s:", "streams: {t:"))
    assert changed(old, new) == old.queries.keys()
    other = topology(tmp_path, text=TOPOLOGY.replace("  n: {", "  m: {"))
    assert query_digest(old, "n") != query_digest(other, "m")
