"""Audit rows in two passes; the second one reads a spool on disk."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import chain
from typing import Final

from inorder.contract import DEFAULT_STREAM
from recordings.audit.advice import STEPS_NS, Advice, Tried, advise
from recordings.audit.columns import Columns
from recordings.audit.counting import Counting
from recordings.audit.engine_run import EngineFigures, run_through_engine
from recordings.audit.judged_clocks import JudgedClock, judge
from recordings.audit.kinds import Kinds
from recordings.audit.machine import Machine
from recordings.audit.mended import MendColumns, Mended, mend_rows
from recordings.audit.plain_jobs import PlainJobs
from recordings.audit.row import AuditInput, OrderRule, Unread
from recordings.audit.spool import Spool
from recordings.audit.verdicts import FINE, JUMPED, SILENT, UNKNOWN, verdict_of
from recordings.audit.wraps import Wraps, guess_wraps
from recordings.proposal import StreamProposal, queries_of, topology_text
from topology.base.outcome import Malformed
from topology.config import parse
from topology.order.reorder.settings import SeqRange, has_number

MAX_NAMED: Final = 10_000
"""The maximum number of sources that are listed by name; the others share one line."""

REST: Final = "…"


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings of an audit.

    Attributes:
        length_ns: The length of windows.
        bounds_ns: The watermark bounds of the plain jobs, ascending.
        order: How partitions are put in order.
        arrives: Whether rows have their arrivals.
        wraps: How sequence numbers wrap; None if that is to be guessed.
        zone: The time zone in which times are shown.
    """

    length_ns: int
    bounds_ns: tuple[int, ...]
    order: OrderRule
    arrives: bool
    wraps: Wraps | None = None
    zone: tzinfo = UTC

    @property
    def shown(self) -> int:
        """The index of the bound by which sources and pictures are judged: the middle bound.

        For an even number of bounds, this is the larger of the two in the middle.
        """
        return len(self.bounds_ns) // 2


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of an audit.

    Attributes:
        asked: The settings of the audit.
        counting: The counts of the first pass.
        unread: The rows that could not be read.
        machines: The sources, the worst first.
        clocks: The judgment of each source's clock, by name.
        verdicts: The verdict on each source, by name.
        corrected: The figures without wrong clocks; None if no clock is known to be wrong.
        engine: The figures of the engine.
        advice: The proposed settings.
    """

    asked: Asked
    counting: Counting
    unread: Unread
    machines: list[Machine]
    clocks: dict[str, JudgedClock]
    verdicts: dict[str, str]
    corrected: Mended | None
    engine: EngineFigures
    advice: Advice

    @property
    def records(self) -> int:
        return self.counting.rows + self.unread.count

    @property
    def jobs(self) -> PlainJobs:
        return self.counting.jobs

    @property
    def wrong_by_clock(self) -> set[int]:
        """The numbers of the windows that are wrong because of wrong clocks."""
        return set() if self.corrected is None else self.corrected.moved_windows

    def late_ns_of(self, machine: Machine) -> array[int]:
        """Return how far each late record of a source was behind, as if no clock were wrong."""
        return machine.late_ns if self.corrected is None else self.corrected.late_ns[machine.number]

    def total(self, name: str) -> int:
        """Return the sum of the count `name` over all sources."""
        return sum(count_of(machine, name) for machine in self.machines)

    def late(self) -> Iterator[int]:
        """Yield, for each record that is out of time, how far it was behind in ns."""
        return chain.from_iterable(machine.late_ns for machine in self.machines)


def audit(
    inputs: AuditInput | Columns,
    asked: Asked,
    advance: Callable[[int], object] = lambda _: None,
) -> Findings:
    """Audit the rows, or the columns of a countable table, and return the findings.

    If numbers turn out to wrap, or sources to number only some of their records, the rows are
    counted once more. The errors of `Counting.take` are passed on.
    """
    unread = Unread()
    with count(inputs, asked, unread, advance) as (by, counting, spool):
        machines = list(counting.machines.values())
        clocks = judge(machines)
        mend: MendColumns | None = None
        if isinstance(inputs, Columns):
            from recordings.audit.by_columns.mend import mend_columns as mend
        corrected = mend_rows(spool, machines, clocks, by.length_ns, mend)
        names = [machine.name for machine in machines]

        def run(advice: Advice) -> EngineFigures:
            stream = {DEFAULT_STREAM: StreamProposal(advice)}
            topology = parse(topology_text(stream, queries_of(by.length_ns)))
            if not by.arrives:
                topology = topology.without_arrivals()
            return run_through_engine(topology, spool, names, by.length_ns)

        advice, engine = tune_lateness(advise(counting, clocks, corrected), run)
    verdicts = {
        m.name: verdict_of(
            m, clocks.get(m.name), counting.last_ns, arrives=by.arrives, zone=by.zone
        )
        for m in machines
    }
    machines.sort(key=lambda machine: _badness(machine, clocks, verdicts), reverse=True)
    return Findings(by, counting, unread, machines, clocks, verdicts, corrected, engine, advice)


def tune_lateness(
    advice: Advice, run: Callable[[Advice], EngineFigures]
) -> tuple[Advice, EngineFigures]:
    """Return the advice with the allowed lateness that the engine needs, and its figures.

    If windows are wrong at last, longer ones are tried. The result has the shortest one that leaves
    as few windows wrong as the longest of `STEPS_NS`. Cost: at most one run more than the logarithm
    of the number of steps.
    """
    engine = run(advice)
    least_ns, wrong = advice.correct_for_ns, len(engine.at_last)
    best, left = advice, wrong
    longer = [step_ns for step_ns in STEPS_NS if step_ns > least_ns] if wrong else []
    if longer:
        most = replace(advice, correct_for_ns=longer[-1])
        found = run(most)
        if len(found.at_last) < wrong:
            best, engine, left = most, found, len(found.at_last)
            longer.pop()
        else:
            longer.clear()
    while longer:
        half = len(longer) // 2
        shorter = replace(advice, correct_for_ns=longer[half])
        found = run(shorter)
        if len(found.at_last) <= left:
            best, engine, longer = shorter, found, longer[:half]
        else:
            longer = longer[half + 1 :]
    return replace(best, tried=Tried(least_ns, wrong, len(engine.at_last))), engine


@contextmanager
def count(
    inputs: AuditInput | Columns,
    asked: Asked,
    unread: Unread,
    advance: Callable[[int], object] = lambda _: None,
    kinds: Kinds | None = None,
) -> Iterator[tuple[Asked, Counting, Spool]]:
    """Count the rows, and yield the settings, the counts and the rows on disk.

    The settings are `asked` with the wraps of numbers, which are guessed if it has none. `unread`
    gets the rows that could not be read. The errors of `Counting.take` are passed on.

    Args:
        inputs: The rows, or the columns of a table that `is_countable`, if its numbers do not wrap.
        asked: The settings of the audit.
        unread: The rows that could not be read.
        advance: A function that is called with 1 for each row.
        kinds: The kinds of all sources, if the rows are counted again without those of other kinds.
    """
    wraps = asked.wraps or Wraps()
    jobs = PlainJobs(asked.length_ns, asked.bounds_ns, asked.order)
    counting = Counting(jobs, asked.order, asked.shown, wraps, arrives=asked.arrives)
    counting.kinds = kinds or Kinds()
    with Spool() as spool:
        if isinstance(inputs, Columns):
            from recordings.audit.by_columns.count import count_columns

            for fault in inputs.faults:
                unread.add(fault)
            advance(len(inputs) + len(inputs.faults))
            count_columns(inputs, counting, spool)
        else:
            rows = unread.rows(_check_range(inputs, wraps.range), advance)
            counting.take(rows if kinds else counting.kinds.count(rows), spool)
        falls = {name: each.epochs.falls for name, each in counting.machines.items()}
        found = asked.wraps or guess_wraps(falls)
        alone = [] if kinds else [*counting.kinds.find_faults()]
        if found is asked.wraps and not alone:
            yield asked, counting, spool
            return
        for each in alone:
            unread.add(each)
        again: AuditInput | Columns
        if isinstance(inputs, Columns) and found is None:
            again = inputs.select_kinds(list(map(counting.kinds.is_numbered, inputs.names)))
        else:
            again = counting.kinds.select(spool.read_audit_rows([*counting.machines]))
        settings = replace(asked, wraps=found)
        with count(again, settings, Unread(), kinds=counting.kinds) as found_again:
            yield found_again


def _check_range(inputs: AuditInput, seq_range: SeqRange | None) -> AuditInput:
    """Yield the rows whose numbers are in the range, and a fault for any other row."""
    detail = f"a number is not in the range {seq_range}; set a larger --seq-range or --seq-bits"
    for each in inputs:
        number = None if isinstance(each, Malformed) else each.seq
        if number is not None and not has_number(seq_range, number):
            yield Malformed(0, each.offset, "seq_range", detail, source=each.source)
        else:
            yield each


def _badness(
    machine: Machine, clocks: dict[str, JudgedClock], verdicts: dict[str, str]
) -> tuple[object, ...]:
    clock = clocks.get(machine.name)
    wrong = (clock is not None and clock.is_wrong) or verdicts[machine.name] == JUMPED
    return (
        verdicts[machine.name].startswith(SILENT),
        machine.several_partitions,
        wrong,
        max(abs(ahead_ns) for _, ahead_ns in clock.segments) if wrong and clock else 0,
        len(machine.wrong_windows),
        verdicts[machine.name] not in (FINE, UNKNOWN),
        machine.epochs.missing + machine.copies + machine.out_of_time,
        machine.records,
    )


def count_of(machine: Machine, name: str) -> int:
    if name in ("missing", "restarts"):
        return int(getattr(machine.epochs, name))
    return int(getattr(machine, name))
