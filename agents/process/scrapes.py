"""What a worker exposes as metrics: the families of all its stages, as each answered last.

A stage whose loop is busy may not answer in time. Its last values are exposed then, with their age
in `AGE`: series that vanish for one scrape would begin the waiting time of every alert anew. They
go with the process that gave them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

AGE: Final = "inorder_scrape_age_seconds"
READY: Final = "inorder_stage_ready"
STAGES: Final = "inorder_topology_stage"


class Scraped(NamedTuple):
    """Metrics of a stage as text, and when they came (monotonic)."""

    text: str
    at_s: float


class Scrapes:
    """A collector. `are_ready`: which stages of this worker are; `topology_stages`: all stages of
    its topology file."""

    def __init__(
        self, are_ready: Callable[[], Mapping[str, bool]], topology_stages: Sequence[str]
    ) -> None:
        self._are_ready = are_ready
        self._topology_stages = topology_stages
        self._last: dict[str, Scraped] = {}

    def note(self, stage: str, text: str) -> None:
        self._last[stage] = Scraped(text, time.monotonic())

    def forget(self, stage: str) -> None:
        """Its process has ended."""
        self._last.pop(stage, None)

    def texts(self) -> list[str]:
        return [scraped.text for scraped in self._last.values()]

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for text in self.texts():
            for family in text_string_to_metric_families(text):
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples += family.samples
        yield from families.values()
        now_s = time.monotonic()
        ages = {stage: now_s - scraped.at_s for stage, scraped in self._last.items()}
        yield _by_stage(AGE, "Age of the values of a stage, which did not answer since", ages)
        yield _by_stage(READY, "Whether the stage is ready", self._are_ready())
        stages = dict.fromkeys(self._topology_stages, 1)
        yield _by_stage(STAGES, "1 for each stage of the worker's topology file", stages)


def _by_stage(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["stage"])
    for stage, value in values.items():
        family.add_metric([stage], float(value))
    return family
