"""One machine as an audit sees it, and the totals of several."""

from __future__ import annotations

from array import array

from recordings.audit.clock_readings import ClockReadings
from recordings.audit.numbers import NumberedEpochs


class Machine:
    """Counts of one source; `number` is its place among all. `late_ns`: of each record that is out
    of time, by how much. `at_ns` is the last arrival, or stamp where none is known."""

    __slots__ = (
        "at_ns",
        "copies",
        "copies_counted",
        "epochs",
        "first_ns",
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
        "several_partitions",
        "wrong_windows",
    )

    def __init__(self, name: str, number: int, partition: int, epochs: NumberedEpochs) -> None:
        self.name = name
        self.number = number
        self.partition = partition
        self.several_partitions = self.numbered = False
        self.records = self.copies = self.out_of_sequence = 0
        self.late_ns = array("q")
        self.epochs = epochs
        self.readings = ClockReadings()
        self.first_ns: int | None = None
        self.at_ns = 0
        self.newest_ns = -(1 << 63)
        """The largest stamp."""
        self.longest_silence_ns = 0
        self.rows_dropped = self.copies_counted = 0
        self.wrong_windows: set[int] = set()
        """By number, those that it makes wrong under the bound that pictures show."""

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
