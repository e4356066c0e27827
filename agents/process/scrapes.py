"""Exposes a worker's metrics: its stages' latest answers, its processes, and its version.

A stage whose loop is busy may not answer in time. Then its last values are exposed, with their age
in `AGE`. A series that is missing in one scrape would restart the waiting time of every alert. The
values of a process are dropped when it ends.

Each process has the metrics `process_*`, named as in Prometheus clients, with its `stage`
(`SUPERVISOR` for the worker itself). They are exposed even while the stage does not answer. Other
metrics are the stages of the topology file, the readiness of each stage, and the memory limit.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import codec
from agents.process.child_process import Child
from agents.process.memory import memory_limit
from topology.base import event

AGE: Final = "inorder_scrape_age_seconds"
READY: Final = "inorder_stage_ready"
STAGES: Final = "inorder_topology_stage"
BUILD: Final = "inorder_build_info"
MEMORY: Final = "inorder_memory_limit_bytes"
SUPERVISOR: Final = "supervisor"
COMPILED: Final = "compiled"
CORE: Final = "in Python" if event.__file__.endswith(".py") else COMPILED
IN_PYTHON: Final = (
    "core: in Python; a compiled core needs half of the CPU for an event: install a wheel of"
    " inorder-engine for this Python, or use the image (docs/operate/size.md)"
)
"""The log line at the start of a worker whose core is not compiled."""


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended, or outside Linux."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def make_build_labels() -> dict[str, str]:
    """Return the labels of `BUILD`: the running versions."""
    return {
        "version": version("inorder-engine"),
        "core": CORE,
        "codec": str(codec.AT_WORK),
        "python": platform.python_version(),
    }


@dataclass(eq=False)
class Scrapes:
    """A collector of the metrics from the latest answers of this worker's stages.

    `topology_stages` are all stages of the topology file, some of which other workers may run.
    """

    children: Sequence[Child]
    topology_stages: Sequence[str]

    def texts(self) -> list[str]:
        return [child.metrics for child in self.children if child.metrics is not None]

    def collect(self) -> Iterable[Metric]:
        families = [each for text in self.texts() for each in text_string_to_metric_families(text)]
        families += _collect_process(SUPERVISOR, os.getpid())
        for child in self.children:
            if child.process is not None and child.runs:
                families += _collect_process(child.stage, child.process.pid)
        yield from _join(families)
        now_s = time.monotonic()
        answered = (child for child in self.children if child.metrics is not None)
        ages = {child.stage: now_s - child.metrics_s for child in answered}
        yield _make_stage_gauge(AGE, "Seconds since a stage last answered with its metrics", ages)
        are_ready = {child.stage: not child.reasons("ready") for child in self.children}
        yield _make_stage_gauge(READY, "Whether the stage is ready", are_ready)
        stages = dict.fromkeys(self.topology_stages, 1)
        yield _make_stage_gauge(STAGES, "1 for each stage of the worker's topology file", stages)
        built = make_build_labels()
        info = GaugeMetricFamily(BUILD, "1; the labels are the versions", labels=list(built))
        info.add_metric(list(built.values()), 1)
        yield info
        text = "Memory that the container or the machine has, in bytes"
        yield GaugeMetricFamily(MEMORY, text, value=memory_limit())


def _join(families: Iterable[Metric]) -> Iterable[Metric]:
    """Join the samples of all families with the same name into one family."""
    found: dict[str, Metric] = {}
    for family in families:
        known = found.setdefault(family.name, family)
        if known is not family:
            known.samples += family.samples
    return found.values()


def _collect_process(stage: str, pid: int) -> Iterable[Metric]:
    """Yield the memory, CPU and file metrics of a process; nothing if it has ended."""
    for family in ProcessCollector(pid=lambda: pid, registry=None).collect():
        family.samples = [
            Sample(each.name, {"stage": stage}, each.value) for each in family.samples
        ]
        yield family


def _make_stage_gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["stage"])
    for stage, value in values.items():
        family.add_metric([stage], float(value))
    return family
