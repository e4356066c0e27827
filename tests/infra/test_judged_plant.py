"""Examples: how the plant of the Kubernetes tests sends and is judged, without a cluster."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from tests.kubernetes import plant as module
from tests.kubernetes.plant import Cluster, Plant


class SilentPlant(Plant):
    """A plant whose events come out as they are sent."""

    def send(self, count: int, rate: float | None = None) -> None:
        time.sleep(0.001)
        self.sent += count

    def read_ordered(self) -> list[dict[str, Any]]:
        return [{}] * self.sent


@pytest.fixture
def silent() -> SilentPlant:
    return SilentPlant(cast("Cluster", None))


def test_events_outlast_the_disturbance(silent: SilentPlant) -> None:
    sent_at_end: list[int] = []

    def disturb() -> None:
        begun = silent.sent
        while silent.sent < begun + 3 * module.PIECE:
            time.sleep(0.001)
        sent_at_end.append(silent.sent)

    silent.send_during(disturb)
    assert silent.sent > sent_at_end[0]


def test_events_that_end_too_early_are_told(
    silent: SilentPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PIECES", 2)
    with pytest.raises(AssertionError, match="before the disturbance ended"):
        silent.send_during(lambda: time.sleep(0.2))
    assert silent.sent == 2 * module.PIECE
