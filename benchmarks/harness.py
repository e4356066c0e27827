"""Declare and run benchmarks: a world makes events, entries answer, columns score, a table shows.

A benchmark is a module with a function that yields its tables, and the `command` made from it.
`turns` runs entries in turn, `score` prints each beside one of them, `cpu_s` measures a call.
`figures` measures this tree and, in turns with it, another one (`--beside FOLDER`: a worktree of
another revision, or build/compiled). Each turn is a separate process, which uses the benchmarks of
this tree and everything else of the other.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import click

from agents.process.garbage import GC_THRESHOLDS
from benchmarks.disorder.run import measure_spent
from benchmarks.peers.bring import PeerUnavailable
from benchmarks.tables import Page, Table, count
from benchmarks.traces import TraceAbsent

ROOT: Final = Path(__file__).absolute().parents[1]
ROUNDS: Final = 3
LEFT_OUT: Final = (TraceAbsent, PeerUnavailable)
CHILD: Final = """
import sys, json, importlib, benchmarks
sys.path[0] = sys.argv[1]
module, _, name = sys.argv[2].partition(":")
print(json.dumps(getattr(importlib.import_module(module), name)(**json.loads(sys.argv[3]))))
"""

Found = TypeVar("Found")
Columns = Mapping[str, Callable[[Any, Any], str]]
"""Functions by column title. Each returns the text for an entry's result, beside a second result.
"""

Figures = dict[str, float]
Tables = Iterator[tuple[str, Callable[[], Table]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options given to a benchmark."""

    full: bool = False
    only: tuple[str, ...] = ()
    rounds: int = ROUNDS
    beside: Path | None = None
    say: Callable[[str], None] = print

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)


def command(tables: Callable[[Asked], Tables]) -> click.Command:
    """Return the click command that prints the tables, named after the module of `tables`."""

    @click.command(tables.__module__.rpartition(".")[2], help=tables.__doc__)
    @click.option("--full", is_flag=True, help="The sizes of the figures in README.md.")
    @click.option("--only", multiple=True, help="Run the tables with this text in their names.")
    @click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True)
    @click.option(
        "--beside",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Another tree, measured in turns with this one where CPU is compared.",
    )
    @click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
    def run(markdown: Path | None, **options: Any) -> None:
        page = Page(markdown)
        asked = Asked(**options, say=page.say)
        try:
            for name, table in tables(asked):
                if asked.wants(name):
                    show(page, name, table)
        except LEFT_OUT as absent:
            page.say(f"left out: {absent}")

    return run


def show(page: Page, name: str, table: Callable[[], Table]) -> None:
    try:
        page.table(table())
    except LEFT_OUT as absent:
        page.say(f"{name}: left out: {absent}")


def run_in_turns(
    entries: Mapping[str, Callable[[], Found]], rounds: int = 1, say: Callable[[str], None] = print
) -> dict[str, list[Found]]:
    """Return the results of each entry in each round, without entries that are unavailable here."""
    found: dict[str, list[Found]] = {}
    for _ in range(rounds):
        for name, entry in entries.items():
            try:
                found.setdefault(name, []).append(entry())
            except LEFT_OUT as absent:
                del found[name]
                say(f"{name}: left out: {absent}")
    return found


def compare_entries(
    title: str, entries: Mapping[str, Callable[[], object]], columns: Columns, base: str = ""
) -> Table:
    """Return the table in which each entry is measured once."""
    return make_table(
        title, {name: one for name, (one,) in run_in_turns(entries).items()}, columns, base
    )


def make_table(title: str, found: Mapping[str, object], columns: Columns, base: str = "") -> Table:
    """Return a table with a row for each entry, compared with the entry `base` or the first."""
    table = Table(title, ("", *columns))
    beside = found[base] if base else next(iter(found.values()))
    for name, one in found.items():
        table.add(name, *(cell(one, beside) for cell in columns.values()))
    return table


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, with the garbage collector set as in a worker."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def compare_trees(asked: Asked, title: str, call: str, **options: object) -> Table:
    """Return the medians of the figures of `call` (`module:function`) in each tree, in turns."""
    trees = [ROOT] if asked.beside is None else [ROOT, asked.beside]
    entries = {str(tree): partial(run_in_tree, tree, call, options) for tree in trees}
    medians = [
        {name: median(run[name] for run in runs) for name in runs[0]}
        for runs in run_in_turns(entries, asked.rounds).values()
    ]
    names = ("this tree",) if len(trees) == 1 else ("this tree", trees[1].name, "ratio")
    table = Table(title, ("", *names))
    for name, ours in medians[0].items():
        cells = [format_figure(one[name]) for one in medians]
        ratio = [f"{ours / one[name]:.3f}" if one[name] else "-" for one in medians[1:]]
        table.add(name, *cells, *ratio)
    return table


def run_in_tree(tree: Path, call: str, options: Mapping[str, object]) -> Figures:
    """Return the figures of a call in a separate process, with the core of another tree."""
    argv = [sys.executable, "-c", CHILD, str(tree.absolute()), call, json.dumps(options)]
    with tempfile.TemporaryFile("w+") as said:
        measure_spent(argv, said, ROOT)
        said.seek(0)
        measured: Figures = json.load(said)
        return measured


def format_figure(figure: float) -> str:
    return count(figure) if figure >= 1_000 else f"{figure:.3g}"


def mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / max(1, len(known))


def quantile(ordered: Sequence[int], share: float) -> int:
    """Return the quantile of ascending values for this share, or 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
