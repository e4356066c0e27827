"""What pattern queries cost: events a second, time to the match, memory; beside two baselines.

* *Found*: the counts of LimeCEP's stream of 10 000 events (patterns.md 8), and the largest
  resident memory, each row in a process of its own.
* *Ours and the baselines* (benchmarks/baselines): the same events in the same order through all
  three; rates are events per CPU second, *answer* is from the call with the event that
  completes or corrects to its end.
* *What costs grow with*: the window, disorder, types that no query asks for, more queries.

The baselines stop at their bound of partial matches; `-` stands for that.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any, Final

import click

from benchmarks.baselines.sequence import Sequence as Asked
from benchmarks.pattern_runs import (
    NO_LIMIT,
    Cost,
    Feed,
    by_buffered_nfa,
    by_eager,
    by_engine,
    by_operator,
    compiled,
    largest_rss_mb,
    memory_of_operator,
    weight,
)
from benchmarks.plots import Axes, Curve, draw, shown
from benchmarks.tables import Page, Table, count, thousands
from benchmarks.traces import TraceAbsent, folder
from benchmarks.workloads.keyed import keyed
from benchmarks.workloads.letters import SLACK, letters
from topology.model.event import Event
from topology.pattern.language.parse import parse_query
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry

QUERIES: Final = ("abc", "ab+c", "a+b+c")
FIVE: Final = ("abc", "ab+c", "a+b+c", "acb", "bac")
WINDOWS: Final = (10, 100, 1_000)
CURVE: Final = (10, 20, 50, 100, 200, 500, 1_000)
DISORDER: Final = (0.0, 0.2, 0.5, 0.7)
QUICK_EVENTS: Final = 2_000
FULL_EVENTS: Final = 10_000
QUICK_KEYED: Final = 20_000
FULL_KEYED: Final = 200_000
ROUNDS: Final = 3
QUICK_MATCHES: Final = 60_000
"""The quick form leaves out what has more."""

ALL_TYPES: Final = 10
RARE: Final = 0.005
COUNTLESS: Final = 100_000_000
SHORT: Final = 100
"""Matches shown of an end event where there are countless."""

MS: Final = 1_000_000
OFF_NS: Final = (5 * MS, 200 * MS, 3_600_000 * MS)
UNSURE: Final = ("SEQ(A a, B b) WHERE a.v < b.v", "SEQ(A a, !C, B b)")
FEW: Final = 4
"""Where times are unsure there are so many times fewer events."""

TIMEOUT_S: Final = 900
ROOT: Final = Path(__file__).absolute().parents[1]

TRUTH: Final[dict[tuple[str, str], tuple[int, int, int]]] = {
    ("abc", "ONE"): (2_929, 3_232, 3_232),
    ("ab+c", "ONE"): (2_929, 3_232, 3_232),
    ("a+b+c", "ONE"): (2_929, 3_232, 3_232),
    ("abc", "MAXIMAL"): (16_818, 1_814_393, 172_342_402),
    ("ab+c", "MAXIMAL"): (7_860, 105_203, 1_030_391),
    ("a+b+c", "MAXIMAL"): (4_737, 54_713, 528_592),
}
"""By query and mode, for the windows above; counted from the definition."""

LIMECEP: Final[dict[tuple[str, str], tuple[int | None, ...]]] = {
    ("abc", "ONE"): (2_929, 3_232, 3_232),
    ("ab+c", "ONE"): (2_929, 3_232, 3_232),
    ("a+b+c", "ONE"): (3_268, 32_927, 295_815),
    ("abc", "MAXIMAL"): (16_818, 1_814_393, None),
    ("ab+c", "MAXIMAL"): (7_060, 57_831, 532_659),
    ("a+b+c", "MAXIMAL"): (4_737, 54_713, 528_592),
}
"""As its authors published them; None: it ran out of memory."""

WORTH_TRYING: Final[dict[tuple[str, bool], int]] = {
    ("abc", False): 1_000,
    ("ab+c", False): 1_000,
    ("a+b+c", False): 1_000,
    ("abc", True): 100,
    ("ab+c", True): 10,
    ("a+b+c", True): 10,
}
"""The largest window at which the baselines come to an end."""


def recorded(disordered: bool) -> Feed:
    """LimeCEP's 10 000 events, its time stamps being its numbers."""
    path = folder() / "limecep" / f"micro_{'ooo' if disordered else 'inorder'}.csv.gz"
    if not path.is_file():
        raise TraceAbsent(path)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return [(int(row["ts"]), row["type"]) for row in csv.DictReader(lines)]


# -- found, against the truth -----------------------------------------------------------------


def alone(text: str, within: int, *, any_: bool, disordered: bool, limit: int) -> dict[str, Any]:
    """One row, in this process."""
    query = compiled(text, within, any_=any_, limit=limit)
    cost = by_engine([query], recorded(disordered), SLACK if disordered else 0)
    return {
        "current": cost.current,
        "corrected": cost.updated + cost.retracted,
        "overflowed": cost.overflowed,
        "seconds": cost.seconds,
        "worst_ns": cost.answer_ns(1.0),
        "rss_mb": largest_rss_mb(),
    }


ALONE: Final = "from benchmarks.patterns import command; command()"
"""Nothing else is imported, as memory is measured."""


def in_a_process(**options: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "--row", json.dumps(options)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def found(most: int) -> Table:
    table = Table(
        "LimeCEP's 10 000 events: found, and found as they came, 1 005 of them late",
        ("query", "window", "truth", "LimeCEP", "found", "disordered", "corrected", "CPU s",
         "disordered, s", "worst answer ms", "RSS MB"),
        note=f"+: of each end event the first {SHORT}, and word that there are more. "
        "LimeCEP's are its authors' figures.",
    )  # fmt: skip
    for (text, mode), truths in TRUTH.items():
        for within, truth, theirs in zip(WINDOWS, truths, LIMECEP[text, mode], strict=True):
            limit = NO_LIMIT if truth < COUNTLESS else SHORT
            if truth > most and limit == NO_LIMIT:
                continue
            asked = {"text": text, "within": within, "any_": mode == "MAXIMAL", "limit": limit}
            row = in_a_process(**asked, disordered=False)
            late = in_a_process(**asked, disordered=True)
            table.add(
                f"{text} {mode}",
                count(within),
                count(truth),
                "out of memory" if theirs is None else count(theirs),
                _judged(row, truth),
                _judged(late, truth),
                count(late["corrected"]),
                f"{row['seconds']:.2f}",
                f"{late['seconds']:.2f}",
                f"{max(row['worst_ns'], late['worst_ns']) / 1e6:.1f}",
                f"{max(row['rss_mb'], late['rss_mb']):.0f}",
            )
    return table


def counted() -> Table:
    """In this process: nothing of it grows with the matches."""
    table = Table(
        "The same, as sets: counted and not told one by one",
        ("query", "window", "truth", "counted", "disordered", "corrected", "CPU s",
         "disordered, s"),
    )  # fmt: skip
    for (text, mode), truths in TRUTH.items():
        for within, truth in zip(WINDOWS, truths, strict=True) if mode == "MAXIMAL" else ():
            query = compiled(text, within, any_=True, sets=True)
            row = by_engine([query], recorded(disordered=False))
            late = by_engine([query], recorded(disordered=True), SLACK)
            table.add(
                f"{text} AS SETS",
                count(within),
                count(truth),
                "all" if row.current == truth else f"{count(row.current)} (WRONG)",
                "all" if late.current == truth else f"{count(late.current)} (WRONG)",
                count(late.updated),
                f"{row.seconds:.2f}",
                f"{late.seconds:.2f}",
            )
    return table


def _judged(row: dict[str, Any], truth: int) -> str:
    current = row["current"]
    if row["overflowed"]:
        return f"{count(current)} +"
    return "all" if current == truth else f"{count(current)} (WRONG)"


# -- beside the baselines ---------------------------------------------------------------------


def compared(feed_size: int) -> Iterator[Table]:
    for any_ in (False, True):
        mode = "MAXIMAL" if any_ else "ONE"
        table = Table(
            f"{mode}: events per CPU second, and us from the event to the answer (p50 / p99 / max)",
            ("query, window, disorder", "ours", "buffered NFA", "eager", "times the NFA",
             "times eager", "answer: ours", "NFA, after its wait", "eager"),
            note=f"The NFA answers {SLACK} ticks after the event. -: over "
            "the bound of partial matches, or not tried beyond a window where it is.",
        )  # fmt: skip
        for text in QUERIES:
            for within in WINDOWS:
                if any_ and _too_many(text, within, feed_size):
                    continue
                if feed_size < FULL_EVENTS and within == 100 and not any_:
                    continue
                for disorder in (0.0, 0.7):
                    _compare(table, text, within, disorder, feed_size, any_=any_)
        yield table


def _too_many(text: str, within: int, feed_size: int) -> bool:
    """More matches than the time allows."""
    if feed_size < FULL_EVENTS:
        return within > (10 if text == "abc" else 100)
    return within > 100


def _compare(
    table: Table, text: str, within: int, disorder: float, size: int, *, any_: bool
) -> None:
    feed = letters(size, disorder=disorder)
    slack = SLACK if disorder else 0
    ours = by_engine([compiled(text, within, any_=any_)], feed, slack)
    asked = Asked.of(text, within, any_=any_)
    is_worth = within <= WORTH_TRYING[text, any_]
    nfa = by_buffered_nfa(asked, feed, slack) if is_worth else None
    eager = by_eager(asked, feed, slack) if is_worth else None
    others = [None if cost is None or cost.exploded else cost for cost in (nfa, eager)]
    for other in others:
        if other is not None and other.current != ours.current:
            raise AssertionError(f"{text} {within}: {other.current} and ours {ours.current}")
    table.add(
        f"{text}, {within}, {disorder:.0%}",
        thousands(ours.rate),
        *("-" if other is None else thousands(other.rate) for other in others),
        *("-" if other is None else f"{ours.rate / other.rate:.1f}" for other in others),
        *("-" if cost is None else _answers(cost) for cost in (ours, *others)),
    )


def _answers(cost: Cost) -> str:
    return " / ".join(f"{cost.answer_ns(share) / 1e3:.0f}" for share in (0.5, 0.99, 1.0))


# -- keyed, with the plain way and without -----------------------------------------------------


def keyed_sequences(feed_size: int) -> Table:
    """Both ways in turn, the median of `ROUNDS`."""
    columns = ("delayed", "events per CPU second", "general way", "times", "MB over the input")
    table = Table(
        "SEQ(A, B, C) of one key within 1 s: 100 keys, 10 types, 10 000 events a second", columns
    )
    for delayed in (0.0, 0.12, 0.7):
        rates: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for is_plain, found in rates.items():
                events = keyed(feed_size, delayed=delayed)
                found.append(feed_size / by_operator(events, is_plain=is_plain))
        plain, general = median(rates[True]), median(rates[False])
        memory = memory_of_operator(keyed(feed_size, delayed=delayed), is_plain=True)
        table.add(f"{delayed:.0%}", thousands(plain), thousands(general),
                  f"{plain / general:.1f}", f"{memory:.0f}")  # fmt: skip
    return table


# -- what it grows with -----------------------------------------------------------------------


def grown(feed_size: int) -> tuple[Table, list[Curve]]:
    """In order, window by window. The baselines where the last type is rare: partial matches
    wait for it until their window ends."""
    feed, seldom = letters(feed_size), letters(feed_size, rare=RARE)
    columns = ("window", *(f"{text} ONE" for text in QUERIES), "a+b+c MAXIMAL", "matches an event",
               "us a match", "C rare: abc ONE", "NFA", "eager")  # fmt: skip
    table = Table(f"us of CPU an event, by window; rare: {RARE:.1%} of the events are C", columns)
    curves: dict[str, list[tuple[float, float, str]]] = {}
    for within in CURVE:
        us: dict[str, float] = {}
        for text in QUERIES:
            us[f"{text} ONE"] = _us(by_engine([compiled(text, within, any_=False)], feed))
        many = by_engine([compiled("a+b+c", within, any_=True)], feed)
        us["a+b+c MAXIMAL"] = _us(many)
        asked = Asked.of("abc", within, any_=False)
        query = compiled("abc", within, any_=False)
        us["abc ONE, C rare"] = _us(by_engine([query], seldom))
        us["abc ONE, C rare, buffered NFA"] = _us(by_buffered_nfa(asked, seldom, 0))
        us["abc ONE, C rare, eager"] = _us(by_eager(asked, seldom, 0))
        for name, cost in us.items():
            curves.setdefault(name, []).append((within, cost, ""))
        shown = [f"{cost:.1f}" for cost in us.values()]
        a_match = f"{many.seconds * 1e6 / max(1, many.emitted):.1f}"
        per_event = f"{many.emitted / many.events:.1f}"
        table.add(str(within), *shown[:4], per_event, a_match, *shown[4:])
    return table, [Curve(name, points) for name, points in curves.items()]


def _us(cost: Cost) -> float:
    return cost.seconds * 1e6 / cost.events


def disordered(feed_size: int) -> Table:
    columns = ("query, window", *(f"{share:.0%}" for share in DISORDER), "updates, 70%",
               "retracts, 70%")  # fmt: skip
    table = Table("events per CPU second by share of delayed events, every one corrected", columns)
    for text, any_, within in (
        ("abc", False, 100),
        ("ab+c", False, 100),
        ("a+b+c", False, 1_000),
        ("ab+c", True, 10),
        ("a+b+c", True, 100),
    ):
        query = compiled(text, within, any_=any_)
        costs = [by_engine([query], letters(feed_size, disorder=d), SLACK) for d in DISORDER]
        mode = "MAXIMAL" if any_ else "ONE"
        rates = (thousands(cost.rate) for cost in costs)
        last = costs[-1]
        table.add(f"{text} {mode}, {within}", *rates, count(last.updated), count(last.retracted))
    return table


def shared(feed_size: int) -> list[Table]:
    feed = letters(feed_size)
    wide = letters(feed_size, types=ALL_TYPES)
    each = [compiled(text, 100, any_=False, name=f"q{at}") for at, text in enumerate(FIVE)]
    rates = Table(
        "events per CPU second, ONE, window 100",
        ("queries", "3 types", "10 types"),
        note="Five: " + ", ".join(FIVE) + ".",
    )
    alone_s = 0.0
    for query, text in zip(each, FIVE, strict=True):
        cost = by_engine([query], feed)
        alone_s += cost.seconds
        rates.add(text, thousands(cost.rate), thousands(by_engine([query], wide).rate))
    together = by_engine(each, feed)
    rates.add("five together", thousands(together.rate), thousands(by_engine(each, wide).rate))
    rates.add("one after the other", thousands(len(feed) / alone_s), "")
    one, five = weight(each[2:3], feed), weight(each, feed)
    bytes_ = Table(
        "bytes an event retained, the event apart", ("", "a+b+c", "five queries", "five / one")
    )
    bytes_.add("store", f"{one.store:.0f}", f"{five.store:.0f}", f"{five.store / one.store:.2f}")
    bytes_.add("with results and starts", f"{one.all:.0f}", f"{five.all:.0f}",
               f"{five.all / one.all:.2f}")  # fmt: skip
    return [rates, bytes_]


def unsure(feed_size: int) -> Table:
    """Two sources of the same error, and a third whose error may be any."""
    table = Table(
        "events per CPU second where times are unsure, window 100 ms, an event each ms",
        ("", *(f"off by {off_ns // MS:,} ms" for off_ns in OFF_NS)),
        note="Each third event is by a source that is off by so much; the others by 5 ms.",
    )
    for text in UNSURE:
        query = Compiled(parse_query(f"PATTERN {text} WITHIN 100 ms"))
        rates = (thousands(_unsure_rate(query, feed_size, off_ns)) for off_ns in OFF_NS)
        table.add(text, *rates)
    return table


def _unsure_rate(query: Compiled, feed_size: int, off_ns: int) -> float:
    rng, engine = Random(1), Engine([query])
    began = process_time()
    for at in range(feed_size):
        source = ("off", "a", "b")[at % 3]
        error_ns = off_ns if at % 3 == 0 else 5 * MS
        event = Event("s", source, at, at * MS, at * MS, 0, type=rng.choice("AB"))
        event.error_ns = error_ns
        engine.accept(Entry(event, {"v": rng.randrange(100)}), 0)
        engine.advance(engine.clock_ns - 500 * MS, 0)
        engine.findings.clear()
        engine.freed.clear()
    return feed_size / (process_time() - began)


@click.command("patterns")
@click.option("--full", is_flag=True, help="All windows, 10 000 events; some minutes.")
@click.option("--plots", type=click.Path(path_type=Path), help="A folder for the picture.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--row", hidden=True, help="One row of the first table, as JSON, for itself.")
def command(full: bool, plots: Path | None, markdown: Path | None, row: str | None) -> None:
    """Pattern queries: rates, time to the answer, memory, beside two baselines."""
    if row is not None:
        print(json.dumps(alone(**json.loads(row))))
        return
    page = Page(markdown)
    size = FULL_EVENTS if full else QUICK_EVENTS
    try:
        page.table(found(COUNTLESS if full else QUICK_MATCHES))
        page.table(counted())
    except TraceAbsent as absent:
        page.say(str(absent))
    for table in compared(size):
        page.table(table)
    page.table(keyed_sequences(FULL_KEYED if full else QUICK_KEYED))
    table, curves = grown(size)
    page.table(table)
    page.table(disordered(size))
    page.table(unsure(size // FEW))
    for table in shared(size):
        page.table(table)
    if plots is not None:
        shown(page, plots, partial(draw, AXES, curves, plots / "patterns_window.png"))


AXES: Final = Axes(
    "Patterns: cost of an event in order",
    "window, events",
    "us of CPU an event",
    x_linear_below=5,
    y_linear_below=5,
)
