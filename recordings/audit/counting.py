"""Count sources, disorder and the errors of plain jobs, in the first pass of an audit.

* `copies`: records with a number that their source has sent before in the same epoch. Without
  numbers, records with an id of an earlier record of their source (`topology.order.reorder.ids`).
* `missing`: numbers between the smallest and the largest of an epoch that have not arrived.
* `out_of_sequence`: records, except duplicates, whose number is below an earlier number of their
  source and epoch.
* `set_backs`: records in sequence whose timestamp is below an earlier one of their source. One that
  equals the arrival is none of the source's own.
* `out_of_time`: records, except duplicates, whose time is below that of an earlier record of the
  stream. If the partitions are not in one order, only records of the same partition are compared.

Rows are not kept in memory; a spool on disk takes what the second pass needs. Memory: up to
`MAX_MACHINES` sources, each with a `Machine`, and sixteen bytes for a record that is out of time
or set back.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from recordings.audit.judged_epochs import EpochJudge, event_of
from recordings.audit.kinds import Kinds
from recordings.audit.machine import Machine
from recordings.audit.numbers import GapBudget, NumberedEpochs
from recordings.audit.plain_jobs import NEVER_NS, PlainJobs
from recordings.audit.quantiles import clip_ns
from recordings.audit.row import AuditRow, OrderRule
from recordings.audit.spool import Spool
from recordings.audit.wraps import Wraps
from topology.base.event import Event
from topology.base.stamp_clock import StampClock
from topology.order.reorder.ids import RememberedIds
from topology.order.reorder.settings import ReorderConfig
from topology.records.checker import AS_WRITTEN

MAX_MACHINES: Final = 100_000
"""The maximum number of sources; if there are more, the field read as the source is wrong."""


class TooManyMachines(Exception):
    """The error of a wrong source field, in which nearly every record has another value."""


class Counting:
    """The counts of an audit's first pass.

    Attributes:
        jobs: The plain jobs whose errors are counted.
        order: How partitions are put in order.
        shown: The index of the bound by which sources and pictures are judged.
        wraps: How sequence numbers wrap.
        kinds: The records of each source with and without a number.
        arrives: Whether rows have their arrivals.
        machines: The sources by name.
        behind_own_ns: How far each record without a number was behind the newest of its source.
        newcomer_behind_ns: How far a source's first timestamp was behind the newest of all sources,
            at most.
        last_ns: The last arrival, or the largest timestamp if no arrival is known.
    """

    def __init__(
        self, jobs: PlainJobs, order: OrderRule, shown: int, wraps: Wraps, *, arrives: bool
    ) -> None:
        self.jobs = jobs
        self.order = order
        self.shown = shown
        self.wraps = wraps
        self.kinds = Kinds()
        self.arrives = arrives
        self.machines: dict[str, Machine] = {}
        self.rows = 0
        self.numbered = self.has_ids = False
        self.first_ns: int | None = None
        self.behind_own_ns = array("q")
        self.newcomer_behind_ns = 0
        self.last_ns = 0
        self.gaps = GapBudget()
        self._judge = EpochJudge(wraps, MAX_MACHINES)
        self._stamps = StampClock(AS_WRITTEN.max_ahead_ns)
        self._ids = RememberedIds(ReorderConfig())
        self._newest_ns = dict.fromkeys(order.partitions, NEVER_NS)

    def take(self, rows: Iterable[AuditRow], spool: Spool) -> None:
        """Count rows, and write them to the spool.

        Raises:
            TooManyGaps: The field read as number is probably another one.
            TooManyMachines: The field read as source is probably another one.
            TooManyWindows: The field read as time is probably another one.
        """
        delayed: deque[tuple[AuditRow, int]] = deque()
        for epoch in self._judge.judge(self._events(rows, delayed)):
            self._take(*delayed.popleft(), epoch, spool)

    def _events(
        self, rows: Iterable[AuditRow], delayed: deque[tuple[AuditRow, int]]
    ) -> Iterator[Event]:
        """Yield the events of the rows, and add the rows with their times to `delayed`."""
        for row in rows:
            at_ns = row.arrival_ns
            if at_ns is None:
                at_ns = self._stamps.take(row.ts_ns, row.source)
            at_ns = self._advance_clock(at_ns)
            delayed.append((row, at_ns))
            yield event_of(row, at_ns)

    def _take(self, row: AuditRow, at_ns: int, judged: int, spool: Spool) -> None:
        source, seq, epoch, ts_ns, arrival_ns, partition, _, digest = row
        self.rows += 1
        machine = self.machines.get(source)
        if machine is None:
            machine = self.add_machine(source, partition)
            behind_ns = self._newest_ns[self.order.partitions[0]] - ts_ns
            self.newcomer_behind_ns = max(self.newcomer_behind_ns, behind_ns)
        elif partition != machine.partition:
            machine.several_partitions = True
        machine.records += 1
        machine.arrives(at_ns)
        copy = behind = False
        if seq is not None:
            self.numbered = machine.numbered = True
            copy, behind = machine.epochs.take(judged, seq, at_ns, is_written=epoch is not None)
            machine.out_of_sequence += behind
        else:
            copy, digest = self._has_known_id(machine, digest, at_ns), 0
        machine.copies += copy
        if not copy:
            part = partition if self.order.apart else self.order.partitions[0]
            behind_ns = self._newest_ns[part] - ts_ns
            if behind_ns > 0:
                machine.late_ns.append(clip_ns(behind_ns))
            else:
                self._newest_ns[part] = ts_ns
            if ts_ns >= machine.newest_ns:
                machine.newest_ns = ts_ns
            elif seq is None:
                self.behind_own_ns.append(clip_ns(machine.newest_ns - ts_ns))
            elif not behind and ts_ns != arrival_ns:
                machine.set_back_ns.append(clip_ns(machine.newest_ns - ts_ns))
        # A duplicate, or a record after a later one of its source, shows nothing about the clock.
        if not (copy or behind):
            self._read_clock(machine, ts_ns, at_ns, arrival_ns)
        dropping = self.jobs.take(ts_ns, partition, copy=copy)
        if dropping > self.shown:
            machine.rows_dropped += 1
            machine.wrong_windows.add(ts_ns // self.jobs.length_ns)
        elif copy:
            machine.copies_counted += 1
            machine.wrong_windows.add(ts_ns // self.jobs.length_ns)
        place = machine.number, partition
        spool.add(ts_ns, at_ns, arrival_ns, seq, epoch, *place, digest, copy)

    def _has_known_id(self, machine: Machine, digest: int, at_ns: int) -> bool:
        """Return whether the id came before; a digest of 0 is that of a row without an id."""
        if not digest:
            return False
        self.has_ids = machine.has_ids = True
        if self._ids.is_duplicate(digest, at_ns):
            return True
        self._ids.remember(digest, at_ns)
        return False

    def _read_clock(self, machine: Machine, ts_ns: int, at_ns: int, arrival_ns: int | None) -> None:
        if self.arrives:
            machine.readings.note(at_ns, ts_ns - (at_ns if arrival_ns is None else arrival_ns))
        else:
            machine.jumps.note(ts_ns)

    @property
    def without_number(self) -> int:
        """The number of records that are dead, as their sources have no numbers and others do."""
        if not self.numbered or self.kinds.by_time:
            return 0
        return sum(each.records for each in self.machines.values() if not each.numbered)

    def _advance_clock(self, at_ns: int) -> int:
        """Advance the arrival clock to `at_ns`, and return its time; it never goes back."""
        if self.first_ns is None:
            self.first_ns = self.last_ns = at_ns
        elif at_ns > self.last_ns:
            self.last_ns = at_ns
        return self.last_ns

    def add_machine(self, source: str, partition: int) -> Machine:
        """Add a source that was first heard on this partition, and return it."""
        if len(self.machines) >= MAX_MACHINES:
            raise TooManyMachines
        epochs = NumberedEpochs(self.gaps, self.wraps.modulus(source))
        machine = Machine(source, len(self.machines), partition, epochs)
        self.machines[source] = machine
        return machine
