"""Which sources of a partition come late, and which lose numbers, by name, for whoever looks.

The counts are of what has happened since the partition was opened here. Each is what is certain:
it happened at least so often. Up to `COUNTED` sources of a partition that come late, and as many
that lose numbers, are counted exactly. Where there are more, those are counted for certain that
make more than one in `COUNTED` of all that is late or lost there, and the error says how much more
may have been (`agents.watch.frequent`). Told are those that are late most often and those that have
lost the most numbers, be it in one hole or in many: `TOLD` of each table by all partitions of a
stage together, but of one never fewer than the page names of all, so that none of these is missed.
Told too are those that are asked for by name. What is late and given up is counted where it is
reported anyway, so an event in order costs nothing.

| key          | what                                                             |
|--------------|------------------------------------------------------------------|
| `late`       | events that came late, at least                                  |
| `late_error` | at most so many more did                                         |
| `gaps`       | holes that were given up, at least                               |
| `lost`       | numbers in holes, at least; some may yet have come, late         |
| `lost_error` | at most so many more were                                        |

Memory: twice `COUNTED` entries a partition, 4 MB where so many sources are late and lose numbers.

Proved by: tests/agents/watch/test_troubled.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from agents.watch.frequent import Frequent, Source
from agents.watch.page.lanes import MAX_LATE, MAX_LOST
from topology.model.outcome import Gap, Report

COUNTED: Final = 4_000
TOLD: Final = 500
NAMED: Final = max(MAX_LATE, MAX_LOST)


def share(partitions: int) -> int:
    """How many of each table one of so many partitions tells."""
    return max(NAMED, TOLD // max(partitions, 1))


class Troubled:
    """`late`: the table of those that come late, which somebody else keeps."""

    def __init__(self, late: Frequent) -> None:
        self._late = late
        self._lost = Frequent(COUNTED)

    def saw(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if type(report) is Gap:
                numbers = report.last - report.first + 1
                self._lost.note((report.stream, report.source), numbers)

    def explain(self, most: int, asked: Iterable[Source] = ()) -> list[dict[str, Any]]:
        """The `most` worst of both tables, and of those `asked` for the ones that are in either, in
        the order of their names."""
        told = []
        tables = (self._late, self._lost)
        worst = {source for table in tables for _, source in table.worst(most)}
        worst.update(source for source in asked if any(source in table for table in tables))
        for source in sorted(worst):
            late, lost = self._late.of(source), self._lost.of(source)
            told.append(
                {
                    "stream": source[0],
                    "source": source[1],
                    "late": late.amount,
                    "late_error": late.error,
                    "gaps": lost.times,
                    "lost": lost.amount,
                    "lost_error": lost.error,
                }
            )
        return told
