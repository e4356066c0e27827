"""What an event causes: it is stored, and the units that it can change are looked at."""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.event import Event
from topology.pattern.match.uncertain.doubt import NO_DOUBT
from topology.pattern.run.admit import (
    CONFLICT,
    IRRELEVANT,
    STORED,
    Admission,
    EntryStore,
    PartitionGroup,
    PartitionIndex,
)
from topology.pattern.run.ledger import BEFORE_ALL_TIME
from topology.pattern.run.queries import RunContext
from topology.pattern.run.run import Run
from topology.pattern.store.entry import Entry, Key


class EventIntake:
    """`newest`: the largest key that was stored."""

    def __init__(self, admission: Admission, store: EntryStore, context: RunContext) -> None:
        self._admission = admission
        self._store = store
        self._now = context.now
        self._doubt = context.doubt
        self._emitter = context.emitter
        self._waits = context.waits
        self.newest: Key | None = None
        is_alone = context.is_plain and len(store.groups) == 1 and store.everything is None
        self._plain_group = store.groups[0] if is_alone else None

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Take an event; what became of it: one of `admit.WORDS`.

        The plain case goes at one go: an event of a sure time, neither late nor known, that some
        filter takes, in a partition that is there, of queries that all partition alike; nothing is
        gathered."""
        group, now, waits = self._plain_group, self._now, self._waits
        if group is None or waits.gathering or not self._admission.is_plain(entry, now.frontier_ns):
            return self._accept(entry, at_ns)
        filters = group.filters_of(entry)
        partition = group.known_partition_of(entry) if filters else None
        if partition is None:
            return self._accept(entry, at_ns)
        if entry.time_ns > now.clock_ns:
            now.clock_ns = entry.time_ns
        self._admission.retained[entry.identity] = entry
        in_order = partition.take(entry, filters)
        for run in partition.runs:
            if not run.follow(entry, filters, at_ns, in_order=in_order):
                self._look(run, entry, filters, at_ns, in_order=in_order)
        if self._emitter.has_news or waits.clock.next_ns < now.clock_ns:
            waits.emit(at_ns)
        self._admission.counts[STORED] += 1
        return STORED

    def _accept(self, entry: Entry, at_ns: int) -> str:
        if self._waits.gathering:
            self._waits.correct_until(at_ns - 1)
        word = self._admission.refusal(entry.event, entry.identity, self._now.frontier_ns)
        if not word:
            word = self._take(entry, at_ns)
        elif word == CONFLICT:
            word = self._admission.of_known(entry)
        self._admission.counts[word] += 1
        return word

    def pass_by(self, event: Event) -> str:
        """The same of an event of a type that no query asks for: it needs no entry then, and is no
        copy of any that is retained."""
        if self._waits.gathering:
            self._waits.correct_until(event.at_ns - 1)
        identity = (event.source, event.epoch, event.seq)
        word = self._admission.refusal(event, identity, self._now.frontier_ns)
        if not word:
            word = IRRELEVANT
            self._widen(event.error_ns)
            if event.ref_time_ns > self._now.clock_ns:
                self._now.clock_ns = event.ref_time_ns
                if self._waits.clock.next_ns < event.ref_time_ns:
                    self._waits.emit(event.at_ns)
        self._admission.counts[word] += 1
        return word

    def exchange(self, old: Sequence[Entry], new: Sequence[Entry], at_ns: int) -> Sequence[Entry]:
        """Put new entries where others were, and evaluate once; the new ones that have room."""
        affected: dict[Run, dict[Key, Entry]] = {}
        for entry in old:
            self._note_around(entry, affected)
        for entry in old:
            for group in self._store.groups:
                group.take_out(entry)
            self._admission.take_out(entry)
        room = max(0, self._admission.max_retained - len(self._admission.retained))
        new = new[:room]
        for entry in new:
            self._widen(entry.event.error_ns)
            self._now.clock_ns = max(self._now.clock_ns, entry.time_ns)
            for group in self._store.groups:
                group.put(entry, group.filters_of(entry))
            self._admission.keep(entry)
            if self.newest is None or entry.key > self.newest:
                self.newest = entry.key
        for entry in new:
            self._note_around(entry, affected)
        self._waits.quiet_ns = BEFORE_ALL_TIME
        gone = {id(entry) for entry in old}
        for run, anchors in affected.items():
            units = [anchors[key] for key in sorted(anchors)]
            withdrawn = [entry for entry in units if id(entry) in gone]
            run.exchange([entry for entry in units if id(entry) not in gone], withdrawn)
        self._waits.emit(at_ns)
        return new

    def _note_around(self, entry: Entry, affected: dict[Run, dict[Key, Entry]]) -> None:
        """The anchors of the units that it may have a part in."""
        for group in self._store.groups:
            for run in group.runs_around(entry):
                found = affected.setdefault(run, {})
                found.update((anchor.key, anchor) for anchor in run.affected.around(entry))

    def _take(self, entry: Entry, at_ns: int) -> str:
        self._widen(entry.event.error_ns)
        if entry.time_ns > self._now.clock_ns:
            self._now.clock_ns = entry.time_ns
        in_order = self.newest is None or entry.key > self.newest
        for group in self._store.groups:
            self._offer(group, entry, at_ns, in_order=in_order)
        if in_order:
            self.newest = entry.key
        self._waits.emit(at_ns)
        return STORED if self._admission.keep(entry) else IRRELEVANT

    def _widen(self, error_ns: int) -> None:
        """An event with this error is there. What a larger error reaches is what was still within
        the smaller one's reach, whether or not the rest has been purged."""
        doubt, frontier_ns = self._doubt, self._now.frontier_ns
        if doubt is NO_DOUBT or error_ns <= doubt.error_ns:
            return
        self._store.purge(frontier_ns, is_whole=True)
        by_ns = doubt.widen(error_ns, frontier_ns)
        for run in self._store.runs():
            run.put_off(by_ns)

    def _offer(self, group: PartitionGroup, entry: Entry, at_ns: int, *, in_order: bool) -> None:
        filters = group.filters_of(entry)
        partition = group.put(entry, filters)
        if partition is not None:
            for run in partition.runs:
                ordered = in_order if run.query.shape.everywhere else partition.in_order
                if not run.follow(entry, filters, at_ns, in_order=ordered):
                    self._look(run, entry, filters, at_ns, in_order=ordered)
            self._waits.quiet_ns = min(self._waits.quiet_ns, group.purge_ns)
        if group.strict_everywhere and (not in_order or group.doubt.margin_ns):
            for other in group.partitions.values():
                if other is not partition:
                    self._disturb(other, entry, at_ns)

    def _look(
        self, run: Run, entry: Entry, filters: Sequence[int], at_ns: int, *, in_order: bool
    ) -> None:
        """The general way: the units that the entry can change are evaluated anew."""
        self._waits.quiet_ns = BEFORE_ALL_TIME  # timers may be armed
        anchors = run.affected.by(entry, filters, in_order=in_order)
        if run.query.query.emit == "slack":
            late_by_ns = 0 if in_order else max(1, self._now.clock_ns - entry.time_ns)
            wait_ns = run.gathers_ns(filters, late_by_ns)
            if anchors and wait_ns > 0 and not in_order:
                run.gather(anchors, at_ns + wait_ns)
                self._waits.gather(run)
                return
        if anchors or (run.affected.doubts_apart and run.affected.concerns(filters)):
            run.look(anchors, entry)

    def _disturb(self, other: PartitionIndex, entry: Entry, at_ns: int) -> None:
        """Where a STRICT step looks at all partitions: the entry may come between in that one."""
        for run in other.runs:
            if not run.query.shape.everywhere:
                continue
            if not run.follow(entry, (), at_ns, in_order=False):
                self._waits.quiet_ns = BEFORE_ALL_TIME
                anchors = run.affected.by(entry, (), in_order=False)
                if anchors:
                    run.look(anchors)
