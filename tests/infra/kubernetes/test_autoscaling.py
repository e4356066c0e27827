"""End to end: KEDA scales a stage's pods by its lag; each event is emitted once, in order.

KEDA comes from its Go module, with its own manifests.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from infra.kubernetes import keda
from infra.kubernetes.node import Node
from tests.infra.kubernetes.plant import SPACE, Cluster, Plant, is_ready
from tests.waiting import wait_until

# The first test builds the programs, which takes an hour or more on a new busy machine.
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(7200)]

VALUES: Final = Path(__file__).parent / "scaled.yaml"
WARM_UP, BACKLOG = 1_500, 200_000
LAG_METRIC: Final = "s0-kafka-scaled-raw"
"""The name that KEDA gives to the lag of the first trigger's topic."""
PODS: Final = "app.kubernetes.io/instance=scaled,app.kubernetes.io/component=reorder"


@pytest.fixture
def scaled(cluster: Cluster, tmp_path: Path) -> Iterator[Plant]:
    """Yield a release with separate stages, beside KEDA."""
    if not isinstance(cluster, Node):
        pytest.skip("KEDA's images are made for the node of the tests alone")
    plant = Plant(cluster, "scaled")
    plant.prepare()
    for archive in keda.build_archives(tmp_path):
        cluster.load(archive)
    manifests = keda.render_manifests()
    # The definitions are too long for kubectl's annotation of the last applied state.
    cluster.kubectl("apply", "--server-side", "-f", "-", given=manifests)
    try:
        for name in ("keda-operator", "keda-metrics-apiserver"):
            plant.wait_for("keda", f"deployment/{name}", "Available")
        wait_for_metrics(plant)
        try:
            plant.install("scaled", values=VALUES)
            yield plant
        finally:  # Also remove the parts of a failed install.
            plant.helm("uninstall", "scaled", "--ignore-not-found", "--wait")
    finally:
        cluster.kubectl("delete", "--wait=false", "-f", "-", given=manifests)


def wait_for_metrics(plant: Plant) -> None:
    words = ("apiservice/v1beta1.external.metrics.k8s.io", "--for=condition=Available")
    plant.kubectl("wait", *words, "--timeout=300s")


def ask(plant: Plant, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plant.kubectl("get", *words, "-o", "json"))
    return found


def ready_pods(plant: Plant) -> list[str]:
    pods = ask(plant, "pods", "-l", PODS)["items"]
    return sorted(pod["metadata"]["name"] for pod in pods if is_ready(pod))


def test_backlog_adds_a_pod(scaled: Plant) -> None:
    scaled.wait_for(SPACE, "scaledobject/scaled-reorder")
    scaled.send(WARM_UP)
    judged = scaled.judge()
    print("one pod", judged)
    assert judged.is_exact, judged
    assert len(ready_pods(scaled)) == 1
    began_s = time.monotonic()
    scaled.send(BACKLOG, rate=None)
    scaled.wait_for(SPACE, "scaledobject/scaled-reorder", "Active")
    wait_until(lambda: len(ready_pods(scaled)) == 2, "a second pod")
    print(f"a second pod is ready {time.monotonic() - began_s:.0f} s after the backlog began")
    (scaler,) = ask(scaled, "hpa")["items"]
    (metric,) = scaler["status"]["currentMetrics"]
    print("metric", metric["external"])
    assert metric["external"]["metric"]["name"] == LAG_METRIC
    judged = scaled.judge()
    print("two pods", judged)
    assert judged.is_exact, judged
    events = ask(scaled, "events")["items"]
    assert "SuccessfulRescale" in {each["reason"] for each in events}
