"""Audit rows in two passes; the second one reads a spool on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from inorder.contract import DEFAULT_STREAM
from recordings.audit.advice import Advice, advised
from recordings.audit.counting import Counting
from recordings.audit.engine_run import EngineFigures, through_engine
from recordings.audit.judged_clocks import JudgedClock, judged
from recordings.audit.kinds import Kinds
from recordings.audit.machine import Machine
from recordings.audit.mended import wrong_by_clock
from recordings.audit.plain_jobs import PlainJobs
from recordings.audit.row import AuditInput, OrderRule, Unread
from recordings.audit.spool import Spool
from recordings.audit.verdicts import FINE, JUMPED, UNKNOWN, verdict_of
from recordings.audit.wraps import NEVER, Wraps, guessed_wraps
from recordings.proposal import StreamProposal, queries_of, topology_text
from topology.config import parse
from topology.model.outcome import Malformed

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
    """

    length_ns: int
    bounds_ns: tuple[int, ...]
    order: OrderRule
    arrives: bool
    wraps: Wraps | None = None

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
        wrong_by_clock: The numbers of the windows that are wrong because of wrong clocks.
        engine: The figures of the engine.
        advice: The proposed settings.
    """

    asked: Asked
    counting: Counting
    unread: Unread
    machines: list[Machine]
    clocks: dict[str, JudgedClock]
    verdicts: dict[str, str]
    wrong_by_clock: set[int]
    engine: EngineFigures
    advice: Advice

    @property
    def records(self) -> int:
        return self.counting.rows + self.unread.count

    @property
    def jobs(self) -> PlainJobs:
        return self.counting.jobs

    def total(self, name: str) -> int:
        """Return the sum of the count `name` over all sources."""
        return sum(count_of(machine, name) for machine in self.machines)

    def late(self) -> Iterator[int]:
        """Yield, for each record that is out of time, how far it was behind in ns."""
        return chain.from_iterable(machine.late_ns for machine in self.machines)


def audited(
    inputs: AuditInput, asked: Asked, advance: Callable[[int], object] = lambda _: None
) -> Findings:
    """Audit the rows, and return the findings.

    If numbers turn out to wrap, or sources to number only some of their records, the rows are
    counted once more. The errors of `Counting.take` are passed on.
    """
    unread = Unread()
    with counted(inputs, asked, unread, advance) as (by, counting, spool):
        machines = list(counting.machines.values())
        clocks = judged(machines)
        wrong = [
            clock if (clock := clocks.get(m.name)) and clock.is_wrong else None for m in machines
        ]
        moved: set[int] = set()
        if any(wrong):
            moved = wrong_by_clock(spool, wrong, by.length_ns)
        advice = advised(counting, clocks)
        topology = parse(
            topology_text({DEFAULT_STREAM: StreamProposal(advice)}, queries_of(by.length_ns))
        )
        if not by.arrives:
            topology = topology.without_arrivals()
        names = [machine.name for machine in machines]
        engine = through_engine(topology, spool, names, by.length_ns)
    verdicts = {
        m.name: verdict_of(m, clocks.get(m.name), counting.last_ns, arrives=by.arrives)
        for m in machines
    }
    machines.sort(key=lambda machine: _badness(machine, clocks, verdicts), reverse=True)
    return Findings(by, counting, unread, machines, clocks, verdicts, moved, engine, advice)


@contextmanager
def counted(
    inputs: AuditInput,
    asked: Asked,
    unread: Unread,
    advance: Callable[[int], object] = lambda _: None,
    kinds: Kinds | None = None,
) -> Iterator[tuple[Asked, Counting, Spool]]:
    """Count the rows, and yield the settings, the counts and the rows on disk.

    The settings are `asked` with the wraps of numbers, which are guessed if it has none. `unread`
    gets the rows that could not be read. The errors of `Counting.take` are passed on.

    Args:
        inputs: The rows.
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
        rows = unread.rows(_fitting(inputs, wraps.bits or NEVER), advance)
        counting.take(rows if kinds else counting.kinds.count(rows), spool)
        falls = {name: each.epochs.falls for name, each in counting.machines.items()}
        found = asked.wraps or guessed_wraps(falls)
        alone = [] if kinds else [*counting.kinds.find_alone()]
        if found is asked.wraps and not alone:
            yield asked, counting, spool
            return
        for each in alone:
            unread.add(each)
        again = counting.kinds.select(spool.again([*counting.machines]))
        settings = replace(asked, wraps=found)
        with counted(again, settings, Unread(), kinds=counting.kinds) as found_again:
            yield found_again


def _fitting(inputs: AuditInput, bits: int) -> AuditInput:
    """Yield the rows whose numbers fit in `bits` bits, and a fault for any other row."""
    detail = f"a number does not fit into {bits} bits; set a larger --seq-bits"
    for each in inputs:
        if not isinstance(each, Malformed) and (each.seq or 0) >> bits:
            yield Malformed(0, each.offset, "seq_range", detail, source=each.source)
        else:
            yield each


def _badness(
    machine: Machine, clocks: dict[str, JudgedClock], verdicts: dict[str, str]
) -> tuple[object, ...]:
    clock = clocks.get(machine.name)
    wrong = (clock is not None and clock.is_wrong) or verdicts[machine.name] == JUMPED
    return (
        machine.several_partitions,
        wrong,
        len(machine.wrong_windows),
        verdicts[machine.name] not in (FINE, UNKNOWN),
        machine.epochs.missing + machine.copies + machine.out_of_time,
        machine.records,
    )


def count_of(machine: Machine, name: str) -> int:
    if name in ("missing", "restarts"):
        return int(getattr(machine.epochs, name))
    return int(getattr(machine, name))
