"""Examples: the plant of the Kubernetes tests sends events and is judged, without a cluster."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from tests.infra.kubernetes import plant as module
from tests.infra.kubernetes.plant import SOURCES, Cluster, Judged, Plant, judge_events
from tests.waiting import wait_until


class SilentPlant(Plant):
    """A plant whose events arrive as they were sent, without Kafka."""

    def send(self, count: int, rate: float | None = None) -> None:
        time.sleep(0.001)
        self.sent += count

    def read_ordered(self) -> list[dict[str, Any]]:
        return [{}] * self.sent


@pytest.fixture
def silent() -> SilentPlant:
    return SilentPlant(cast("Cluster", None))


def test_events_outlast_disturbance(silent: SilentPlant, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is high, because a disturbance can take long on a busy machine.
    monkeypatch.setattr(module, "MOST_PIECES", 1_000_000)
    sent_at_end: list[int] = []

    def disturb() -> None:
        begun = silent.sent
        wait_until(lambda: silent.sent >= begun + 3 * module.PIECE, "three pieces")
        sent_at_end.append(silent.sent)

    silent.send_during(disturb)
    assert silent.sent > sent_at_end[0]


def test_too_few_events_fail(silent: SilentPlant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PIECES", 2)
    with pytest.raises(AssertionError, match="before the disturbance ended"):
        silent.send_during(lambda: wait_until(lambda: silent.sent == 2 * module.PIECE, "the last"))
    assert silent.sent == 2 * module.PIECE


def read_calmly(sent: int) -> list[dict[str, Any]]:
    """Return the events in the order in which they were sent."""
    return [{"source": f"m{n % SOURCES}", "seq": n // SOURCES} for n in range(sent)]


def test_ordered_events_are_judged_exact() -> None:
    judged = judge_events(read_calmly(40), 40)
    assert judged == Judged(40, missing=0, repeated=0, foreign=0, disordered=0, late=0)
    assert judged.is_exact


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda found: found.pop(), {"missing": 1}),
        (lambda found: found.append({**found[-1], "late": True}), {"repeated": 1, "late": 1}),
        (lambda found: found.append({"source": "m0", "seq": 2}), {"foreign": 1}),
        (lambda found: found.append({"source": "m20", "seq": 0}), {"foreign": 1}),
        (lambda found: found.append(found.pop(0)), {"disordered": 1}),
    ],
)
def test_each_fault_is_counted(change: Any, fault: dict[str, int]) -> None:
    found = read_calmly(40)
    change(found)
    counts = {"missing": 0, "repeated": 0, "foreign": 0, "disordered": 0, "late": 0}
    judged = judge_events(found, 40)
    assert judged == Judged(40, **counts | fault)
    assert not judged.is_exact


def test_late_event_breaks_no_order() -> None:
    found = read_calmly(40)
    found.append({**found.pop(0), "late": True})
    judged = judge_events(found, 40)
    assert judged.is_exact
    assert judged.late_share == 1 / 40


def test_judge_awaits_stable_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate is counted even if it arrives after the last event."""
    monkeypatch.setattr(module, "READ_EVERY_S", 0)
    whole = read_calmly(40)
    twice = [*whole, whole[-1]]
    readings = iter([whole[:20], whole[:20], whole, twice, twice])

    class ReadPlant(SilentPlant):
        def read_ordered(self) -> list[dict[str, Any]]:
            return next(readings)

    judged = ReadPlant(cast("Cluster", None), sent=40).judge()
    assert (judged.repeated, judged.missing) == (1, 0)


def test_judgement_counts_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_EVERY_S", 0)
    monkeypatch.setattr(SilentPlant, "read_ordered", lambda self: read_calmly(self.sent))
    plant = SilentPlant(cast("Cluster", None), sent=40)
    assert plant.judge().sent == 40
    plant.send(60)
    assert plant.judge().sent == 60
