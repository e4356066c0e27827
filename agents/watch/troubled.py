"""Which sources of a partition come late, and which leave gaps, by name, for whoever looks.

The counts are of what has happened since the partition was opened here, of the `COUNTED` sources
that are late most often and the `COUNTED` that leave most gaps (`agents.watch.frequent`); zero says
that a source is not among these. What is late and given up is counted where it is reported anyway,
so an event in order costs nothing.

| key    | what                                                            |
|--------|-----------------------------------------------------------------|
| `late` | events that came late                                           |
| `gaps` | holes that were given up                                        |
| `lost` | numbers in these holes, of which some may yet have come, late   |

Memory: twice `COUNTED` entries a partition, below 0.3 MB.

Proved by: tests/agents/watch/test_troubled.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agents.watch.frequent import Frequent
from topology.model.outcome import Gap, Report

COUNTED: Final = 500


class Troubled:
    """`late`: the table of those that come late, which somebody else keeps."""

    def __init__(self, late: Frequent) -> None:
        self._late = late
        self._gaps = Frequent(COUNTED)

    def saw(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if type(report) is Gap:
                numbers = report.last - report.first + 1
                self._gaps.note((report.stream, report.source), numbers)

    def explain(self) -> list[dict[str, Any]]:
        """Those of both tables, in the order of their names."""
        told = []
        for source in sorted({*self._late.sources(), *self._gaps.sources()}):
            gaps = self._gaps.of(source)
            told.append(
                {
                    "stream": source[0],
                    "source": source[1],
                    "late": self._late.of(source).times,
                    "gaps": gaps.times,
                    "lost": gaps.amount,
                }
            )
        return told
