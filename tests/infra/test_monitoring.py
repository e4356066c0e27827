"""Examples: alerts and dashboard ask for what workers tell.

A real worker is scraped by a real Prometheus, and each expression is put to it.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from agents.watch.metrics import Metrics
from benchmarks.workloads import crowd
from cli.local.poll import wait_until
from infra.dashboard import FILE, ROWS, dashboard
from infra.prometheus import Prometheus, missing
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, settle
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka, require

ALERTS = FILE.with_name("alerts.yaml")
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panels in ROWS.values() for panel in panels]
EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *((panel.title, expression) for panel in PANELS for _, expression in panel.queries),
]
ENDS = ("", "_total", "_bucket", "_sum", "_count")
NAME = re.compile(r"\binorder_\w+")
QUERIES = """\
queries:
  counts: {window: tumbling 1s, aggregate: {n: count()}, quality: {accuracy: 99%, max_wait: 1s}}
"""
SILENT = {
    *("Checkpoints aborted", "Copies that differ", "Dead by reason", "Holes given up"),
    *("Age of holes given up, half and 99 %", "Share late of the worst sources"),
    "Missing numbers that came in time",
}
"""What a worker that has met no trouble may have nothing to say of."""

TOLD_TIMEOUT_S = 60.0
ROWS_SENT = crowd(20_000).rows
"""Two seconds of the workload, stretched to forty."""


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Every name that a worker may tell."""
    registry = CollectorRegistry()
    Metrics(registry)
    families = [family.name for family in registry.collect()]
    return {name + end for name in families for end in ENDS}


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_each_metric_is_told_by_a_worker(title: str, expression: str, names: set[str]) -> None:
    asked = set(NAME.findall(expression))
    assert asked, title
    assert asked <= names


def test_the_file_is_what_the_module_says() -> None:
    assert json.loads(FILE.read_text()) == dashboard()


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")


@pytest.mark.kafka
@pytest.mark.slow
def test_prometheus_can_answer_each(kafka: SharedKafka, tmp_path: Path) -> None:
    require(missing())
    setting = settle(
        kafka.bootstrap, tmp_path, stages=f"{FUSED}, window", partitions=1, more=QUERIES
    )
    worker = Worker("a", setting.path, setting.bootstrap, tmp_path)
    with running(worker):
        worker.wait_ready()
        with Prometheus(tmp_path / "prometheus", [worker.address], [ALERTS]) as prometheus:
            sender = Sender(setting, ROWS_SENT, speed=0.05).start()
            asked = [
                (panel.title, _filled(expression))
                for panel in PANELS
                for _, expression in panel.queries
            ]
            told: set[str] = set()

            def all_told() -> bool:
                time.sleep(0.5)
                told.update(title for title, expression in asked if prometheus.ask(expression))
                return {title for title, _ in asked} - told <= SILENT

            wait_until(all_told, TOLD_TIMEOUT_S, "an answer to each panel")
            sender.stop()
            wait_until(
                lambda: set(prometheus.rules().values()) == {"ok"}, TOLD_TIMEOUT_S, "sound alerts"
            )
            assert set(prometheus.rules()) == {rule["alert"] for rule in RULES}


def _filled(expression: str) -> str:
    """As Grafana fills in its variables."""
    everything = expression.replace("$stage", ".*").replace("$stream", ".*")
    return everything.replace("$__rate_interval", "10s")
