"""Run `inorder sink` as a process that a test can start, query and kill, and that always ends."""

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
"""The session time-out, after which a killed sink's partitions are assigned again."""


class SinkProcess(Command):
    """A sink process; `folder` has its log, and `arguments` follow `inorder sink`.

    Dead letters are lines in the log too.
    """

    begun_as = ForkedProcess

    def __init__(
        self, name: str, folder: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> None:
        own = {"INORDER_SESSION": SESSION, **(env or {})}
        super().__init__(name, folder, "sink", *arguments, env=own)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the dead letters from all starts of the process."""
        lines = self.process.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"kind":"dead"')]

    def metrics(self) -> dict[str, float]:
        """Return the sum of each family's samples since the last start; empty while nothing
        answers.
        """
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
    """Start the sinks, and kill them at the end."""
    sinks = list(sinks)
    try:
        for sink in sinks:
            sink.start()
        yield
    finally:
        for sink in sinks:
            sink.process.kill()
