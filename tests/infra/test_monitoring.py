"""Examples: alerts and dashboards use existing metrics, and each alert fires only with its fault.

promtool evaluates the alerts. Tests with a real worker are in test_alerts_fire.py.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from agents.process.scrapes import AGE, BUILD, MEMORY, READY, STAGES
from agents.watch.metrics.worker import Metrics
from agents.watch.page.view import View
from cli.local.ports import LOOPBACK
from infra.helm import CHART
from infra.helm import missing as helm_missing
from infra.prometheus import Prometheus, missing
from inorder.sync.keys import KeyRing
from producers.sync_server.metrics import ServerCollector
from producers.sync_server.publishing import LinePublishing
from producers.sync_server.server import SyncServer
from sinks.counts import Counts, SinkCollector
from tests import ROOT
from tests.agents.watch.page import many
from tests.infra.test_helm import STAGES as VALUES
from tests.infra.test_helm import manifests
from tests.services import require
from tests.waiting import wait_until

ALERTS = CHART / "files" / "alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
SHOWN = [(panel["title"], line["expr"]) for panel in PANELS for line in panel.get("targets", ())]
EXPRESSIONS = [*((rule["alert"], rule["expr"]) for rule in RULES), *SHOWN]
ENDS = ("", "_total", "_bucket", "_sum", "_count")
NAME = re.compile(r"\binorder_\w+")
TOKEN = "0123456789abcdef"


async def nothing() -> View:
    return {}


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Return each metric name that a worker, a sync server or a sink can expose."""
    registry = CollectorRegistry()
    Metrics(registry, "merge")
    publishing = LinePublishing(io.BytesIO(), "sync-1")
    server = SyncServer(LOOPBACK, 0, KeyRing.open_to_all(), publishing.take)
    registry.register(ServerCollector(server, publishing))
    registry.register(SinkCollector(Counts()))
    families = [AGE, BUILD, MEMORY, READY, STAGES, *(family.name for family in registry.collect())]
    server.stop()
    server.run()  # Close its socket.
    return {name + end for name in families for end in ENDS}


def table_of_faults() -> list[list[str]]:
    """Return the cells of each row of the table in docs/operate/alerts.md, also empty last ones."""
    page = (ROOT / "docs/operate/alerts.md").read_text()
    section = page.split("## Find a fault\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    width = lines[0].count("|") - 1
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return [row + [""] * (width - len(row)) for row in rows]


def test_table_has_each_alert(names: set[str]) -> None:
    """Each alert has a row, and the row names an exposed metric that the alert's rule uses."""
    rows = table_of_faults()
    asked = {rule["alert"]: rule["expr"] for rule in RULES}
    assert {row[2] for row in rows} - {""} == set(asked)
    for fault, metrics, alert, *others in rows:
        shown = set(NAME.findall(metrics))
        assert shown, fault
        assert shown <= names, fault
        assert any([alert, *others]), fault
        assert not alert or shown & set(re.findall(NAME, asked[alert])) or "_bucket" in asked[alert]


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_each_metric_exists(title: str, expression: str, names: set[str]) -> None:
    asked = set(NAME.findall(expression))
    assert asked, title
    assert asked <= names


def test_panel_ids_are_unique() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_merge_panels_match_stages() -> None:
    """Prometheus matches the whole label, so `merge` alone would miss `reorder+merge`."""
    asked = {word for _, expr in SHOWN for word in re.findall(r'stage=~"([^"]*merge[^"]*)"', expr)}
    (pattern,) = asked
    stages = ["all", "merge", "reorder+merge", "merge+window", "reorder", "window", "detector"]
    assert [name for name in stages if re.fullmatch(pattern, name)] == stages[:4]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_alert_has_a_runbook(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")
    runbook = rule["annotations"]["runbook_url"]
    assert runbook == f"docs/operate/alerts.md#{str(rule['alert']).lower()}"
    assert f"## {rule['alert']}\n" in (ROOT / "docs/operate/alerts.md").read_text()


def test_each_rule_groups_by_release() -> None:
    """Each aggregation keeps the labels `namespace` and `job`."""
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)", ALERTS.read_text())
    assert len(grouped) > 50
    assert {group for group in grouped if not group.startswith("namespace, job")} == set()


READY_AT = 'inorder_stage_ready{job="inorder",instance="w:1",stage="merge"}'
UP = 'up{job="inorder",instance="w:1"}'
MERGE = '{stage="merge"}'
STREAM = 'stage="merge",stream="default"'
OLD = f'inorder_records_late_total{{{STREAM},reason="old_epoch"}}'
CONFLICT = OLD.replace("old_epoch", "conflict")
DIFFERS = f"inorder_records_conflict_total{{{STREAM}}}"
STORE = 'inorder_state_store_errors_total{stage="merge",'
OVERDUE = '{stage="merge",topic="events.sequenced",partition="1",waits_for="progress of b/2"}'
FORGED = f'inorder_records_dead_total{{{STREAM},reason="forged"}}'


def ready(worker: str) -> str:
    return READY_AT.replace("w:1", f"{worker}:1")


def syncs(server: str) -> str:
    return f'inorder_sync_addresses{{job="inorder",instance="{server}:8080"}}'


def lag(worker: str, partition: int, stage: str = "merge") -> str:
    labels = f'job="inorder",instance="{worker}",stage="{stage}",partition="{partition}"'
    return f"inorder_input_lag_records{{{labels}}}"


def clocks(stream: str, stale: str, synced: str, unsynced: str = "0x400") -> dict[str, str]:
    place = f'{{stage="reorder",stream="{stream}",partition="0"}}'
    states = {"stale": stale, "synced": synced, "unsynced": unsynced}
    return {f"inorder_clock_{state}{place}": values for state, values in states.items()}


def partition_series(worker: str, partitions: int, stage: str = "merge") -> dict[str, str]:
    """Return the series of a worker whose stage has an input with `partitions` partitions."""
    labels = f'{{job="inorder",instance="{worker}",stage="{stage}"}}'
    return {
        f"inorder_topology_stage{labels}": "1x400",
        f"inorder_input_partitions{labels}": f"{partitions}x400",
    }


def behind(seconds: str, records: str = "") -> dict[str, str]:
    found = {lag("a", 0).replace("_records", "_seconds"): seconds}
    return found | ({lag("a", 0): records} if records else {})


def idle(silent: str, departed: str = "0x400", read: str = "0+60x400") -> dict[str, str]:
    return {
        f"inorder_merge_idle{{{STREAM}}}": silent,
        f"inorder_merge_ended{{{STREAM}}}": departed,
        f"inorder_records_in_total{{{STREAM}}}": read,
    }


def read(records: str, waiting: str = "0x2000") -> dict[str, str]:
    place = 'job="inorder",stage="merge"'
    return {
        f"inorder_records_in_total{{{place}}}": records,
        f"inorder_input_lag_records{{{place}}}": waiting,
    }


def in_release(job: str, series: dict[str, str]) -> dict[str, str]:
    return {
        name.replace("{", f'{{namespace="{job}",', 1): values for name, values in series.items()
    }


def dead(rate: int) -> dict[str, str]:
    """Return the series of `rate` dead letters a minute, among 1,000 records read."""
    return {
        f'inorder_records_dead_total{{{STREAM},reason="seq_missing"}}': f"0+{rate}x60",
        f"inorder_records_in_total{{{STREAM}}}": "0+1000x60",
    }


def memory(*values: str) -> Pairs:
    """Return the series of a worker with a memory limit of 20; another program there uses more."""
    labels = '{job="inorder",instance="a:1"%s}'
    stage = labels % ',stage="merge"'
    other = '{job="node",instance="a:1"}'
    return {
        f"process_resident_memory_bytes{stage}": values,
        f"process_resident_memory_bytes{other}": ("99x60",) * len(values),
        f"inorder_memory_limit_bytes{labels % ''}": ("20x60",) * len(values),
        f"inorder_build_info{labels % ''}": ("1x60",) * len(values),
    }


Pairs = dict[str, tuple[str, ...]]
"""The values of each series with the fault, and without it."""


def of_stream(**series: tuple[str, str]) -> Pairs:
    pairs: Pairs = {f"inorder_{name}{{{STREAM}}}": each for name, each in series.items()}
    return {f"inorder_records_in_total{{{STREAM}}}": ("0+1000x90",) * 2} | pairs


def both_cases(
    alert: str, pairs: Mapping[str, tuple[str, ...]], minute: int = 50
) -> list[tuple[str, dict[str, str], int, bool]]:
    """Return two cases: the alert fires with the fault, and does not fire without it."""
    return [
        (alert, {name: each[sound] for name, each in pairs.items()}, minute, not sound)
        for sound in (0, 1)
    ]


A, B = lag("a", 0), lag("b", 1)
TWO = partition_series("a", 2)
DEAD = "InorderManyDeadLetters"
UNASSIGNED = "InorderPartitionsUnassigned"
TOPOLOGY = 'inorder_topology_stage{job="inorder",stage="merge"}'
GONE = in_release("a", {READY_AT: "1x5 stale"})
COMMITS = 'inorder_checkpoint_commit_seconds_bucket{stage="merge",le='
PPM = "990000x90"
FIRING = [
    ("InorderNotReady", {READY_AT: "1x30"}, 20, False),
    ("InorderNotReady", {READY_AT: "0x30"}, 5, False),
    ("InorderNotReady", {READY_AT: "0x30"}, 20, True),
    ("InorderAbsent", {READY_AT: "1x30", UP: "1x30"}, 20, False),
    ("InorderAbsent", {READY_AT: "1x5 stale", UP: "1x5 0x25"}, 20, True),
    ("InorderAbsent", {'up{job="inorder",instance="other:1"}': "0x30"}, 20, True),
    ("InorderAbsent", {READY_AT: "1x30", 'up{job="b",instance="other:1"}': "0x30"}, 20, False),
    ("InorderAbsent", {READY_AT: "1x5 stale", syncs("a"): "3x30"}, 20, True),
    ("InorderAbsent", GONE | in_release("b", {READY_AT: "1x30"}), 20, True),
    (UNASSIGNED, TWO | {A: "0x30", B: "0x30"}, 30, False),
    (UNASSIGNED, TWO | {A: "0x30", B: "0x5 stale"}, 12, False),
    (UNASSIGNED, TWO | {A: "0x400", B: "0x5 stale"}, 390, True),
    (UNASSIGNED, TWO | {A: "0x30", B: "0x5 stale", lag("a", 1): "_x6 0x24"}, 20, False),
    (UNASSIGNED, TWO, 20, True),
    (UNASSIGNED, {TOPOLOGY: "1x30"}, 20, True),
    # The stage and its topology were removed.
    (UNASSIGNED, {A: "0x5 stale"}, 20, False),
    ("InorderFallsBehind", behind("0x60"), 40, False),
    ("InorderFallsBehind", behind("0+60x60", "5000000x60"), 40, True),
    ("InorderFallsBehind", behind("3600-30x60", "5000000-10x60"), 40, False),
    ("InorderFallsBehind", behind("_x60", "5000000x60"), 40, True),
    ("InorderFallsBehind", behind("_x60", "5000000-10x60"), 40, False),
    ("InorderFallsBehind", behind("1x60", "20000x60"), 40, False),
    ("InorderInputStopped", read("0+60x900"), 800, False),
    ("InorderInputStopped", read("0+60x600 36000x300"), 612, False),
    ("InorderInputStopped", read("0+60x600 36000x300"), 625, True),
    ("InorderInputStopped", read("0+60x600 36000x300", "9x2000"), 625, False),
    ("InorderInputStopped", read("0+60x100 6000x600"), 625, False),
    ("InorderSourceIdle", idle("0x100 1x50"), 105, False),
    ("InorderSourceIdle", idle("0x100 1x50"), 120, True),
    ("InorderSourceIdle", idle("1x150"), 120, False),
    ("InorderSourceIdle", idle("0x100 1x50", "0x100 1x50"), 120, False),
    ("InorderSourceIdle", idle("0x100 1x50", read="0+60x100 6000x50"), 130, False),
    (DEAD, in_release("big", dead(0)) | in_release("small", dead(1000)), 20, True),
    (DEAD, in_release("big", dead(0)) | in_release("small", dead(0)), 20, False),
    ("InorderFewerWorkers", {ready("a"): "1x90", ready("b"): "0x90"}, 80, False),
    ("InorderFewerWorkers", {ready("a"): "1x90", ready("b"): "1x40 stale"}, 48, False),
    ("InorderFewerWorkers", {ready("a"): "1x90", ready("b"): "1x40 stale"}, 55, True),
    ("InorderFewerWorkers", {ready("a"): "1x90", ready("b"): "1x40 stale"}, 75, False),
    ("InorderFewerWorkers", {ready("a"): "1x90", ready("b"): "1x40 _x5 1x40"}, 60, False),
    ("InorderFewerWorkers", {ready("a"): "1x40 stale", ready("c"): "_x38 1x50"}, 60, False),
    ("InorderSyncServerAbsent", {READY_AT: "1x30", UP: "1x30"}, 20, False),
    ("InorderSyncServerAbsent", {syncs("a"): "0x30", syncs("b"): "3x30"}, 20, False),
    ("InorderSyncServerAbsent", {syncs("a"): "0x30", syncs("b"): "3x5 stale"}, 8, False),
    ("InorderSyncServerAbsent", {syncs("a"): "0x30", syncs("b"): "3x5 stale"}, 15, True),
    ("InorderSyncServerAbsent", {syncs("a"): "0x5 stale"}, 15, True),
    ("InorderSyncServerAbsent", {syncs("a"): "0x5 stale _x3 0x20"}, 25, False),
    ("InorderSyncServerAbsent", {syncs("a"): "0x5 stale", syncs("c"): "_x7 0x20"}, 20, False),
    ("InorderSyncServerAbsent", {syncs("a"): "0x5 stale"}, 6 * 60 + 10, False),
    ("InorderClocksStale", clocks("default", "0x30", "9x30"), 20, False),
    ("InorderClocksStale", clocks("default", "1x30", "9x30"), 20, False),
    ("InorderClocksStale", clocks("default", "2x30", "8x30"), 8, False),
    ("InorderClocksStale", clocks("default", "2x30", "8x30"), 20, True),
    ("InorderClocksStale", clocks("default", "0x30", "0x30"), 20, False),
    ("InorderClocksStale", clocks("a", "0x30", "90x30") | clocks("b", "2x30", "0x30"), 20, True),
    # The clocks were stale for three minutes, and have been unsynced since then.
    ("InorderClocksStale", clocks("a", "0x60 9x3 0x90", "9x60 0x94", "0x63 9x90"), 80, True),
    ("InorderClocksStale", clocks("a", "0x60 9x3 0x340", "9x60 0x344", "0x63 9x340"), 300, True),
    ("InorderClocksStale", clocks("a", "0x200", "9x60 0x94", "0x200"), 80, False),
    ("InorderClocksStale", clocks("a", "0x200", "9x200", "0x60 9x90"), 80, False),
    *both_cases(
        "InorderWatermarkStalled", of_stream(merge_watermark_lag_seconds=("90x60", "9x60"))
    ),
    *both_cases("InorderOverdue", {f"inorder_overdue_seconds{OVERDUE}": ("1+60x60", "_x60")}),
    ("InorderOverdue", {f"inorder_overdue_seconds{OVERDUE}": "_x40 1 stale"}, 42, False),
    *both_cases("InorderBlockedByGap", of_stream(merge_blocked=("3x60", "0x60"))),
    *both_cases("InorderManyLate", of_stream(records_late_total=("0+50x60", "0+1x60"))),
    *both_cases(
        "InorderSourceLate",
        {
            f'inorder_source_late_total{{{STREAM},source="a"}}': ("0+30x60", "0+1x60"),
            f'inorder_source_read_total{{{STREAM},source="a"}}': ("0+100x60", "0+100x60"),
        },
    ),
    *both_cases(
        "InorderBoundReached", of_stream(reorder_overflows_total=("0x20 1x40", "1x60")), 25
    ),
    *both_cases("InorderBoundReached", of_stream(merge_overflows_total=("0x20 1x40", "1x60")), 25),
    *both_cases("InorderClockBroken", of_stream(clock_broken=("1x60", "0x60"))),
    *both_cases(
        "InorderQualityTargetMissed",
        of_stream(window_target_ppm=(PPM, PPM), window_achieved_ppm=("900000x90", "995000x90")),
    ),
    *both_cases(
        "InorderGapsDeclaredTooSoon",
        of_stream(
            reorder_filled_late_total=("0+50x90", "0+1x90"),
            reorder_filled_total=("0+50x90", "0+99x90"),
            reorder_target_ppm=(PPM, PPM),
        ),
        80,
    ),
    *both_cases("InorderCheckpointsFail", of_stream(checkpoint_aborts_total=("0+1x60", "0x60"))),
    *both_cases(
        "InorderCheckpointsSlow",
        {f'{COMMITS}"1"}}': ("0x60", "0+9x60")}
        | {f'{COMMITS}"{le}"}}': ("0+9x60",) * 2 for le in ("5", "+Inf")},
    ),
    *both_cases("InorderNoLocalCopy", {f'{STORE}reason="x"}}': ("0x20 1x40", "1x60")}, 25),
    ("InorderNoLocalCopy", {f'{STORE}reason="x"}}': "_x20 1x40"}, 25, True),
    ("InorderNoLocalCopy", {f'{STORE}reason="input_retention"}}': "0x20 1x40"}, 25, False),
    *both_cases(
        "InorderInputLost", {f'{STORE}reason="input_retention"}}': ("_x20 7x40", "7x60")}, 25
    ),
    ("InorderInputLost", {f'{STORE}reason="held_record_gone"}}': "0x20 1x40"}, 25, True),
    *both_cases(
        "InorderWallClockOff", {f"inorder_wall_clock_off_seconds{MERGE}": ("-3x60", "0x60")}
    ),
    *both_cases("InorderMemoryScarce", memory("19x60", "9x60")),
    *both_cases("InorderMemoryScarce", memory("9x40 19x20", "9x47 19x13")),
    *both_cases(
        "InorderFrequentRebalances", {f"inorder_rebalances_total{MERGE}": ("0+2x60", "7x60")}
    ),
    ("InorderTwoProducers", {DIFFERS: "_x10 1x20"}, 12, True),
    ("InorderTwoProducers", {DIFFERS: "0x10 1x20"}, 12, True),
    ("InorderTwoProducers", {DIFFERS: "_x5 1x55"}, 40, False),
    ("InorderTwoProducers", {OLD: "0x5 4x25"}, 7, False),
    ("InorderTwoProducers", {OLD: "0x5 4x25"}, 12, False),
    ("InorderTwoProducers", {OLD: "0x5 4+4x25"}, 15, True),
    *both_cases(
        "InorderSinkRefuses", {'inorder_sink_dead_total{reason="refused"}': ("0+1x60", "7x60")}
    ),
    ("InorderNumbersReused", {CONFLICT: "_x10 1x20"}, 12, True),
    ("InorderNumbersReused", {CONFLICT: "0x10 1x20"}, 12, True),
    ("InorderNumbersReused", {CONFLICT: "_x5 1x55"}, 40, False),
    *both_cases(
        "InorderNumbersReused",
        of_stream(
            reorder_epochs_inferred_total=("0+1x90", "0+0x60 9x30"), reorder_sources=("9x90",) * 2
        ),
        80,
    ),
    ("InorderUnsigned", {FORGED: "_x10 1x20"}, 12, True),
    ("InorderUnsigned", {FORGED: "0+1x30"}, 12, True),
    ("InorderUnsigned", {FORGED: "_x5 1x55"}, 40, False),
    ("InorderUnsigned", {FORGED.replace("forged", "huge"): "0+1x30"}, 12, False),
]
"""Alert, values of each series per minute in promtool's notation, minute, whether it fires."""


def test_each_alert_has_both_cases() -> None:
    tried = {(alert, fires) for alert, _, _, fires in FIRING}
    assert tried == {(rule["alert"], fires) for rule in RULES for fires in (False, True)}


@pytest.mark.programs
def test_alerts_fire_only_with_fault(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        require("promtool not found; it comes with prometheus")
    files = [_rule_tests(name, tmp_path) for name in {alert for alert, *_ in FIRING}]
    command = ["promtool", "test", "rules", *map(str, files)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _rule_tests(name: str, folder: Path) -> Path:
    """Write promtool's tests for one rule, evaluated alone; return the file."""
    rule = folder / f"{name}.rule.yaml"
    (found,) = [rule for rule in RULES if rule["alert"] == name]
    rule.write_text(json.dumps({"groups": [{"name": name, "rules": [found]}]}))
    tests = [
        {
            "name": f"{alert} {told}",
            "interval": "1m",
            "input_series": [{"series": name, "values": said} for name, said in told.items()],
            "promql_expr_test": [
                {
                    "eval_time": f"{minute}m",
                    "expr": f'group(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, told, minute, fires in FIRING
        if alert == name
    ]
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"rule_files": [str(rule)], "tests": tests}))
    return file


@pytest.mark.programs
@pytest.mark.slow
def test_service_monitor_sends_token(tmp_path: Path) -> None:
    """Prometheus scrapes a worker with the ServiceMonitor's settings, and with its token in plain
    text.
    """
    require(missing())
    require(helm_missing())
    (monitor,) = [one["spec"] for one in manifests(VALUES) if one["kind"] == "ServiceMonitor"]
    (endpoint,) = monitor["endpoints"]
    with many.up(nothing, TOKEN) as address:
        shown = {
            "job_name": "shown",
            "metrics_path": endpoint["path"],
            "authorization": {**endpoint["authorization"], "credentials": TOKEN},
            "static_configs": [{"targets": [address]}],
        }
        with Prometheus(tmp_path / "prometheus", [address], more=[shown]) as prometheus:

            def seen() -> dict[str, str]:
                found = prometheus.ask("up")
                return {one["metric"]["job"]: one["value"][1] for one in found}

            wait_until(lambda: len(seen()) == 2, "a scrape of each")
            assert seen() == {"inorder": "0", "shown": "1"}
