"""Provide services that tests need from outside the process, or skip the tests that lack one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import pytest

from benchmarks.traces import TraceAbsent
from cli.local.kafka import create_topic

UniqueName = Callable[[str], str]
"""A function that makes a unique name from a short word, fit for a Kafka topic."""


@dataclass(frozen=True)
class SharedKafka:
    """A real broker that other tests use at the same time, so no test may harm it.

    A test that kills its broker takes `own_kafka`.
    """

    bootstrap: str

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        create_topic(self.bootstrap, name, partitions, config=config)


def require(missing: str | None) -> None:
    """Continue if nothing is missing; otherwise fail in CI and skip elsewhere, with the reason."""
    if missing is not None:
        absent(missing)


NO_TRACES = "none"


def without_trace(missing: TraceAbsent) -> NoReturn:
    """Fail or skip as `absent` does; with INORDER_DATA=none always skip.

    Public CI sets that value, because not all traces can be redistributed.
    """
    if os.environ.get("INORDER_DATA") == NO_TRACES:
        pytest.skip(str(missing))
    absent(str(missing))


def absent(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} (in CI nothing may be absent)", pytrace=False)
    pytest.skip(what)
