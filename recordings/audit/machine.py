"""Define the counts of one source in an audit."""

from __future__ import annotations

from array import array

from recordings.audit.clock_readings import ClockReadings
from recordings.audit.numbers import NumberedEpochs
from recordings.audit.stamp_jumps import StampJumps


class Machine:
    """The counts of one source.

    Attributes:
        number: The index of the source among all.
        late_ns: How far each record that is out of time was behind.
        at_ns: The last arrival, or the last timestamp if no arrival is known.
        newest_ns: The largest timestamp.
        set_back_ns: How far each record in sequence was below the largest timestamp before it.
        readings: The readings of its clock, if arrivals are known.
        jumps: The jumps of its clock that its timestamps show, if no arrival is known.
        wrong_windows: The numbers of the windows that the source makes wrong under the bound that
            pictures show.
    """

    __slots__ = (
        "at_ns",
        "copies",
        "copies_counted",
        "epochs",
        "first_ns",
        "has_ids",
        "jumps",
        "late_ns",
        "longest_silence_ns",
        "name",
        "newest_ns",
        "number",
        "numbered",
        "out_of_sequence",
        "partition",
        "readings",
        "records",
        "rows_dropped",
        "set_back_ns",
        "several_partitions",
        "wrong_windows",
    )

    def __init__(self, name: str, number: int, partition: int, epochs: NumberedEpochs) -> None:
        self.name = name
        self.number = number
        self.partition = partition
        self.several_partitions = self.numbered = self.has_ids = False
        self.records = self.copies = self.out_of_sequence = 0
        self.late_ns = array("q")
        self.set_back_ns = array("q")
        self.epochs = epochs
        self.readings = ClockReadings()
        self.jumps = StampJumps()
        self.first_ns: int | None = None
        self.at_ns = 0
        self.newest_ns = -(1 << 63)
        self.longest_silence_ns = 0
        self.rows_dropped = self.copies_counted = 0
        self.wrong_windows: set[int] = set()

    @property
    def out_of_time(self) -> int:
        return len(self.late_ns)

    def arrives(self, at_ns: int) -> None:
        if self.first_ns is None:
            self.first_ns = self.at_ns = at_ns
        elif at_ns > self.at_ns:
            if at_ns - self.at_ns > self.longest_silence_ns:
                self.longest_silence_ns = at_ns - self.at_ns
            self.at_ns = at_ns
