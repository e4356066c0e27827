"""What tests need from outside the process, and what happens where it is absent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import pytest

from benchmarks.traces import TraceAbsent
from cli.local.kafka import create_topic

UniqueName = Callable[[str], str]
"""From a short word to a name that no other test uses, fit for a Kafka topic."""


@dataclass(frozen=True)
class SharedKafka:
    """A real broker that other tests use at the same moment: it is not to be hurt.
    A test that kills its broker takes `own_kafka`."""

    bootstrap: str

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        create_topic(self.bootstrap, name, partitions, config=config)


def require(missing: str | None) -> None:
    """Go on if nothing is missing; else fail in CI and skip elsewhere, with the reason."""
    if missing is not None:
        absent(missing)


NO_TRACES = "none"


def without_trace(missing: TraceAbsent) -> NoReturn:
    """As `absent`; but INORDER_DATA=none says that there are none, as where CI is public: not every
    trace may be passed on."""
    if os.environ.get("INORDER_DATA") == NO_TRACES:
        pytest.skip(str(missing))
    absent(str(missing))


def absent(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} (in CI nothing may be absent)", pytrace=False)
    pytest.skip(what)
