"""`inorder sink` as a process: started, asked, killed, and ended for certain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.command import Command
from tests.kit.nursery import ForkedProcess

READY_TIMEOUT_S = 60.0
SESSION = "2s"
"""A killed one's partitions come back with its next life only when this is over."""


class SinkProcess(Command):
    """`folder` holds its log; `arguments` come after `inorder sink`. Dead letters are lines
    of the log too."""

    begun_as = ForkedProcess

    def __init__(
        self, name: str, folder: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> None:
        own = {"INORDER_SESSION": SESSION, **(env or {})}
        super().__init__(name, folder, "sink", *arguments, env=own)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        """The letters of all its starts."""
        lines = self.process.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"kind":"dead"')]

    def metrics(self) -> dict[str, float]:
        """Sum of each family's samples since its last start; empty while nobody answers."""
        sums: dict[str, float] = {}
        try:
            for family in self.families():
                name = family.name.removeprefix("inorder_sink_")
                sums[name] = sum(sample.value for sample in family.samples)
        except OSError:
            return {}
        return sums

    def wait_until_written(self, count: int) -> None:
        self.process.wait_until(lambda: self.metrics().get("written", 0) >= count, READY_TIMEOUT_S)


@contextmanager
def served(sinks: Iterable[SinkProcess]) -> Iterator[None]:
    """Started at the begin; at the end nothing of them is left."""
    sinks = list(sinks)
    try:
        for sink in sinks:
            sink.start()
        yield
    finally:
        for sink in sinks:
            sink.process.kill()
