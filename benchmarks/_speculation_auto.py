"""Which way `answer: auto` chooses: a load step, a lateness step, and both.

Three sources of 50 events a second each; one lags by up to 120 ms, now and then. MERGE waits for
150 ms at most. From 20 to 35 s others take nine tenths of the processor. From 50 to 65 s the source
lags by up to 900 ms, so that some of what it says is late for MERGE. From 100 to 115 s both. A step
of the detector takes a millisecond.

The detector finds what came before, of another source; it has one key. The load is part of the
input, so each run gives the same. *Wait*: from an event to the first result of it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.plots import DPI, pyplot
from benchmarks.tables import Table
from inorder.engine import Detector, RawEvent, parse
from inorder.given import Reader
from topology.flow.replay import Replay
from topology.model.result import EMIT

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
SECONDS: Final = 135
STEP_NS: Final = MS
LOADED: Final = ((20, 35), (100, 115))
LATE: Final = ((50, 65), (100, 115))
STRETCHES: Final = (
    ("quiet", 5, 20),
    ("loaded", 20, 35),
    ("quiet again", 40, 50),
    ("a source lags", 50, 65),
    ("both", 100, 115),
    ("quiet at last", 120, 135),
)
WAYS: Final = ("final", "early", "speculate")

TOPOLOGY: Final = """\
streams:
  default:
    reorder: {max_wait: 1s, late: pass}
    clock: {unsynced: trust}
    merge: {max_wait: 150ms, idle_after: 10s, newcomers: 500ms}
correct_for: 1s
queries:
  turns: {detector: turns, answer: WAY}
"""


def _turns(state: str, event: Any) -> tuple[str, Any]:
    """Who came before, of other sources."""
    return event.source, {"before": state} if state > event.source else None


OWN: Final = {"turns": Detector(_turns, "")}


def _within(second: float, spans: tuple[tuple[int, int], ...]) -> bool:
    return any(begin <= second < end for begin, end in spans)


def stream(seed: int) -> list[RawEvent]:
    dice = Random(seed)
    sent = []
    for source in range(3):
        last_ns = 0
        for seq in range(SECONDS * 50):
            ts_ns = (seq * 20 + dice.randrange(20)) * MS
            most_ms = 900 if _within(ts_ns / SECOND, LATE) else 120
            lag_ms = dice.random() ** 2 * most_ms if source == 2 and dice.random() < 0.1 else 0
            last_ns = max(last_ns, ts_ns + int((5 + lag_ms) * MS))
            sent.append(RawEvent(source=f"s{source}", seq=seq, ts_ns=ts_ns, arrival_ns=last_ns))
    return sorted(sent, key=lambda each: each.arrival_ns or 0)


class Course(NamedTuple):
    """`waits`: when a result was emitted first, and how long after its event. `changes`: when one
    was changed or taken back. `again`: at a time, what was read again by then. `ways`: at a time,
    how the detector answers; of `auto` alone."""

    waits: list[tuple[float, float]]
    changes: list[float]
    again: list[tuple[float, int]]
    ways: list[tuple[float, str]]


def course_of(way: str, sent: list[RawEvent]) -> Course:
    topology = parse(TOPOLOGY.replace("WAY", way), detectors=OWN)
    run = Replay(topology)
    stage = run._stage
    found: list[Any] = []
    course = Course([], [], [], [])
    next_ns = 0
    for content in Reader(topology).contents(sent):
        now_ns = content.at_ns  # type: ignore[union-attr]
        if now_ns >= next_ns:
            next_ns += 100 * MS
            second = now_ns / SECOND
            for each in stage.reading_ahead():
                each.items_cost(STEP_NS, 900_000 if _within(second, LOADED) else 100_000)
            turns = stage.explain()["streams"]["default"]["detector"]["turns"]
            course.again.append((second, turns["replayed"]))
            if way == "auto":
                course.ways.append((second, turns["auto"]["answer"]))
        step = run.on_inputs([content])
        found += step.results if step is not None else ()
    for each in found:
        if each.op == EMIT and each.revision == 0:
            course.waits.append((each.end_ns / SECOND, (each.at_ns - each.end_ns) / MS))
        elif each.op != EMIT:
            course.changes.append(each.at_ns / SECOND)
    return course


def runs() -> dict[str, Course]:
    sent = stream(1)
    return {way: course_of(way, sent) for way in (*WAYS, "auto")}


def table(runs: dict[str, Course]) -> Table:
    found = Table(
        "mean wait in ms, read again in % of a processor, changes of results",
        ("answer", *(name for name, _, _ in STRETCHES)),
    )
    for way, run in runs.items():
        cells = []
        for _, begin, end in STRETCHES:
            waits = [wait for at, wait in run.waits if begin <= at < end]
            again = [count for at, count in run.again if begin <= at < end]
            share = (again[-1] - again[0]) * STEP_NS / ((end - begin) * SECOND)
            changes = sum(begin <= at < end for at in run.changes)
            cells.append(f"{sum(waits) / max(len(waits), 1):.0f}, {share:.1%}, {changes}")
        found.add(way, *cells)
    return found


def changes(auto: Course) -> Table:
    found = Table("what `auto` chooses", ("second", "answer"))
    last = ""
    for at, answer in auto.ways:
        if answer != last:
            found.add(f"{at:.1f}", answer)
            last = answer
    return found


def draw(runs: dict[str, Course], path: Path) -> Path:
    """Above which way holds, below how long each waits."""
    figure, (above, below) = pyplot().subplots(
        2, 1, sharex=True, figsize=(7.5, 5.4), dpi=DPI, layout="constrained", height_ratios=(2, 3)
    )
    for plot in (above, below):
        for begin, end in LOADED:
            plot.axvspan(begin, end, color="tab:red", alpha=0.12, lw=0)
        for begin, end in LATE:
            plot.axvspan(begin, end, color="tab:blue", alpha=0.12, lw=0)
        plot.grid(visible=True, alpha=0.3)
    ways = runs["auto"].ways
    heights = [WAYS.index(answer) for _, answer in ways]
    above.step([at for at, _ in ways], heights, where="post", lw=1.4)
    above.set_yticks(range(len(WAYS)), WAYS)
    above.set_title(
        "What `answer: auto` chooses: red, others take nine tenths; blue, a source lags",
        fontsize=10,
    )
    for way, run in runs.items():
        means = [
            [wait for at, wait in run.waits if second <= at < second + 2]
            for second in range(0, SECONDS, 2)
        ]
        ys = [sum(each) / len(each) if each else None for each in means]
        is_auto = way == "auto"
        (line,) = below.plot(range(1, SECONDS + 1, 2), ys, label=way, lw=2.0 if is_auto else 1.0)
        if is_auto:
            line.set_color("black")
    below.set_yscale("log")
    below.set_xlabel("s of stream")
    below.set_ylabel("ms until the detector tells")
    below.legend(fontsize=8, ncols=4, loc="upper left", bbox_to_anchor=(0.0, 0.86))
    figure.savefig(path, metadata={"Software": None}, pil_kwargs={"optimize": True})
    return path
