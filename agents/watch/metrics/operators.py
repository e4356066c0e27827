"""The figures of the operators as metric families.

A figure `<operator>_<name>` of a chain (topology.model.operator, `figures`) is the family
`inorder_<operator>_<name>`: a counter where it only grows, else a gauge; one that ends in
`_ns` is given in seconds, an instant as seconds since 1970.

Labels are stage, stream and partition. Streams beyond those that have series of their own are
taken together: their counts summed, their times left out.
"""

from __future__ import annotations

from collections import Counter as Totals
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from topology.flow.registry import figures as figures_of_all
from topology.model.operator import Figures

NS_PER_S: Final = 1_000_000_000
TIME: Final = "_ns"


class OperatorMetrics:
    """The families of a stage with these operators (None: of all), in the registry given. A place
    is (stage, stream, partition)."""

    def __init__(
        self,
        registry: CollectorRegistry,
        labels: tuple[str, ...],
        operators: Sequence[str] | None = None,
    ) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        for figure, (text, is_total) in figures_of_all(operators).items():
            name = f"inorder_{figure}".replace(TIME, "_seconds")
            if is_total:
                self._counters[figure] = Counter(name, text, labels, registry=registry)
            else:
                self._gauges[figure] = Gauge(name, text, labels, registry=registry)

    def set(self, place: tuple[str, str, str], figures: Figures) -> None:
        for figure, value in figures.items():
            gauge = self._gauges.get(figure)
            if gauge is not None:
                gauge.labels(*place).set(_in_unit(figure, value))

    def grew(self, place: tuple[str, str, str], before: Figures, now: Figures) -> None:
        """The totals are now these; `before` have been counted."""
        for figure, counter in self._counters.items():
            if figure in now:
                grown = max(0, now[figure] - before.get(figure, 0))
                counter.labels(*place).inc(_in_unit(figure, grown))

    def forget(self, place: tuple[str, str, str]) -> None:
        for gauge in self._gauges.values():
            gauge.remove(*place)


def _in_unit(figure: str, value: int) -> float:
    return value / NS_PER_S if figure.endswith(TIME) else value


def together(parts: Iterable[Mapping[str, int]]) -> Figures:
    """The figures of several streams as one."""
    parts = list(parts)
    if len(parts) == 1:
        return dict(parts[0])
    summed: Totals[str] = Totals()
    for part in parts:
        summed.update({name: value for name, value in part.items() if not name.endswith(TIME)})
    return dict(summed)
