"""Grafana's dashboard, written as a value: `python -m infra.dashboard` prints the file.

Rows of panels, each with its queries; where a panel lies follows from its place in the list.
The file that ships is `infra/helm/inorder/files/dashboard.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).parent / "helm" / "inorder" / "files" / "dashboard.json"
WIDTH: Final = 24
HEIGHT: Final = 7
BY: Final = 'stage=~"$stage", stream=~"$stream"'
STAGE: Final = 'stage=~"$stage"'
SOURCE: Final = {"type": "prometheus", "uid": "$datasource"}


class Panel(NamedTuple):
    """`queries`: what a line is called, and its expression."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    description: str = ""


def series(metric: str, labels: str) -> str:
    return f"inorder_{metric}{{{BY if 'stream' in labels else STAGE}}}"


def rate(metric: str, labels: str = "stage, stream") -> str:
    return f"sum by ({labels}) (rate({series(metric, labels)}[$__rate_interval]))"


def most(metric: str, labels: str = "stage, stream") -> str:
    return f"max by ({labels}) ({series(metric, labels)})"


def total(metric: str, labels: str = "stage, stream") -> str:
    return f"sum by ({labels}) ({series(metric, labels)})"


def quantile(share: float, metric: str, labels: str) -> str:
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', f'{labels}, le')})"


def summed(metric: str, stage: str) -> str:
    place = f'stage=~"{stage}", stream=~"$stream"'
    return f"sum (rate(inorder_{metric}{{{place}}}[$__rate_interval]))"


MERGES: Final = "(.*[+])?merge([+].*)?"
"""The stage that merges, whatever else is in it."""

LEFT_MERGE: Final = summed("wait_seconds_count", MERGES)
WAITED: Final = summed("wait_seconds_sum", MERGES)
BEHIND_HOLES: Final = summed("reorder_waited_seconds_total", ".*")
AT_MERGE: Final = f'stage=~"{MERGES}", stream=~"$stream"'
LATE_WAIT: Final = (
    "sum by (stream) (rate(inorder_records_late_total"
    f'{{{AT_MERGE}, reason="merge_wait"}}[$__rate_interval]))'
)
MERGED: Final = f"sum by (stream) (rate(inorder_records_in_total{{{AT_MERGE}}}[$__rate_interval]))"
NONE_LATE: Final = f"0 * {MERGED}"
FILLED: Final = rate("reorder_filled_total", "stream")
LATE_OF_SOURCE: Final = rate("source_late_total", "stage, stream, source")
STREAM: Final = "{{stage}} {{stream}}"
OURS: Final = "and on (job, instance) inorder_build_info"
"""Added to a series that all kinds of programs have: only those of workers count."""

CLOCKS: Final = ("synced", "unsynced", "stale", "suspect", "broken")
ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Is all in order?": (
        Panel("Events read", "ops", ((STREAM, rate("records_in_total")),)),
        Panel(
            "What became of them",
            "ops",
            (
                ("emitted", rate("records_emitted_total", "stage")),
                ("late", rate("records_late_total", "stage")),
                ("duplicate", rate("records_duplicate_total", "stage")),
                ("dead", rate("records_dead_total", "stage")),
            ),
            "Each event ends as one of these, or is held.",
        ),
        Panel(
            "Share late",
            "percentunit",
            ((STREAM, f"{rate('records_late_total')} / {rate('records_in_total')}"),),
        ),
    ),
    "What waits, and for what": (
        Panel(
            "Records not yet read", "short", (("{{stage}}", total("input_lag_records", "stage")),)
        ),
        Panel(
            "Behind the input",
            "s",
            (("{{stage}}", most("input_lag_seconds", "stage")),),
            "How long the next record to read has waited, of the partition farthest behind.",
        ),
        Panel(
            "Watermark behind the arrival clock",
            "s",
            ((STREAM, most("merge_watermark_lag_seconds")),),
            "W: only late events have a smaller time from now on. The clock is that of what was"
            " read: where a stage is behind its input, both add up.",
        ),
        Panel(
            "Sources",
            "short",
            (
                ("known", total("merge_sources", "stage")),
                ("silent, not waited for", total("merge_idle", "stage")),
                ("behind a hole", total("merge_blocked", "stage")),
                ("catching up", total("merge_catching_up", "stage")),
            ),
        ),
        Panel("Events held", "short", ((STREAM, total("records_held")),)),
        Panel(
            "The longest that an event waits now",
            "s",
            ((STREAM, most("records_held_oldest_seconds")),),
        ),
        Panel(
            "Wait of an event",
            "s",
            (
                ("half {{stage}}", quantile(0.5, "wait_seconds", "stage")),
                ("99 % {{stage}}", quantile(0.99, "wait_seconds", "stage")),
            ),
        ),
        Panel(
            "Wait of an event by cause, mean",
            "s",
            (
                ("behind holes", f"{BEHIND_HOLES} / {LEFT_MERGE}"),
                ("for other sources", f"({WAITED} - {BEHIND_HOLES}) / {LEFT_MERGE}"),
            ),
            "The mean over all events, those in order too.",
        ),
        Panel(
            "Age of holes given up, half and 99 %",
            "s",
            (
                ("half {{stage}}", quantile(0.5, "reorder_gap_age_seconds", "stage")),
                ("99 % {{stage}}", quantile(0.99, "reorder_gap_age_seconds", "stage")),
            ),
        ),
        Panel(
            "Holes given up", "ops", (("{{reason}}", rate("reorder_gaps_total", "stage, reason")),)
        ),
    ),
    "Late, dead, doubled": (
        Panel(
            "Late by reason", "ops", (("{{reason}}", rate("records_late_total", "stage, reason")),)
        ),
        Panel(
            "Dead by reason", "ops", (("{{reason}}", rate("records_dead_total", "stage, reason")),)
        ),
        Panel(
            "Copies that differ",
            "ops",
            ((STREAM, rate("records_conflict_total")),),
            "Two producers under one source's name.",
        ),
        Panel(
            "Share late of the worst sources",
            "percentunit",
            (
                (
                    "{{stream}} {{source}}",
                    f"{LATE_OF_SOURCE} / {rate('source_read_total', 'stage, stream, source')}",
                ),
            ),
            "The twenty of each worker that are late most often.",
        ),
    ),
    "Clocks": (
        Panel(
            "Clocks of sources",
            "short",
            tuple((state, total(f"clock_{state}", "stage")) for state in CLOCKS),
        ),
        Panel(
            "Moved by arrivals alone, at most",
            "s",
            ((STREAM, most("clock_corrected_by_arrival_seconds")),),
        ),
        Panel("Jumps shown by events", "ops", ((STREAM, rate("clock_jumps_total")),)),
    ),
    "Is it as sure as was asked?": (
        Panel(
            "Missing numbers that came in time",
            "percentunit",
            (
                ("promised {{stream}}", f"{most('reorder_target_ppm', 'stream')} / 1e6"),
                (
                    "achieved {{stream}}",
                    f"{FILLED} / ({FILLED} + {rate('reorder_filled_late_total', 'stream')})",
                ),
            ),
            "By `reorder.miss_target`; what never came counts as neither.",
        ),
        Panel(
            "Events in time at the merge",
            "percentunit",
            (
                ("promised {{stream}}", f"{most('merge_target_ppm', 'stream')} / 1e6"),
                ("achieved {{stream}}", f"1 - ({LATE_WAIT} or {NONE_LATE}) / {MERGED}"),
            ),
            "By `merge.miss_target`: late as their source was waited for too short.",
        ),
        Panel(
            "Windows right when first emitted, by stream",
            "percentunit",
            (
                ("promised {{stream}}", f"{most('window_target_ppm', 'stream')} / 1e6"),
                ("achieved {{stream}}", f"{most('window_achieved_ppm', 'stream')} / 1e6"),
            ),
            "By `quality`; of the query that keeps its promise least.",
        ),
    ),
    "Queries": (
        Panel("Results", "ops", (("{{query}} {{op}}", rate("results_total", "query, op")),)),
        Panel(
            "Wait of a window beyond its end", "s", ((STREAM, most("window_wait_mean_seconds")),)
        ),
        Panel(
            "What reading ahead of the merge wins",
            "s",
            (
                ("{{stream}} waits", most("detector_wait_seconds", "stream")),
                ("{{stream}} sooner by", most("detector_lead_seconds", "stream")),
            ),
            "Detectors with `answer: speculate`: how far behind the newest event they read, and how"
            " much sooner than behind the merge.",
        ),
    ),
    "The workers": (
        Panel(
            "Checkpoints",
            "s",
            (
                ("half {{stage}}", quantile(0.5, "checkpoint_commit_seconds", "stage")),
                ("99 % {{stage}}", quantile(0.99, "checkpoint_commit_seconds", "stage")),
            ),
        ),
        Panel("State written", "Bps", (("{{stage}}", rate("checkpoint_bytes_total", "stage")),)),
        Panel(
            "Restores, 99 %",
            "s",
            (("{{stage}}", quantile(0.99, "checkpoint_restore_seconds", "stage")),),
        ),
        Panel(
            "Partitions of each worker",
            "short",
            (("{{instance}} {{stage}}", total("partitions_assigned", "stage, instance")),),
        ),
        Panel("Changes in the group", "ops", (("{{stage}}", rate("rebalances_total", "stage")),)),
        Panel(
            "Checkpoints aborted", "ops", (("{{stage}}", rate("checkpoint_aborts_total", "stage")),)
        ),
        Panel(
            "Memory of each process",
            "bytes",
            (
                ("{{instance}} {{stage}}", f"process_resident_memory_bytes {OURS}"),
                ("{{instance}} may hold", total("held_limit_bytes", "instance")),
                ("{{instance}} limit", "inorder_memory_limit_bytes"),
            ),
            "Pages that stages share count once for each of them. May hold: payload of events, by"
            " the bounds of its partitions.",
        ),
        Panel(
            "Processor of each process",
            "percentunit",
            (
                (
                    "{{instance}} {{stage}}",
                    f"rate(process_cpu_seconds_total[$__rate_interval]) {OURS}",
                ),
            ),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it; a variable each for data source, stage and stream."""
    return {
        "uid": "inorder",
        "title": "inorder",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _variable("stage", "label_values(inorder_records_in_total, stage)"),
                _variable("stream", f"label_values(inorder_records_in_total{{{STAGE}}}, stream)"),
            ]
        },
        "panels": _panels(),
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for row, panels in ROWS.items():
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": row,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        y += 1
        for place, panel in enumerate(panels):
            x = place % 3 * (WIDTH // 3)
            found.append(_drawn(panel, len(found) + 1, x, y + place // 3 * HEIGHT))
        y += -(-len(panels) // 3) * HEIGHT
    return found


def _drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": WIDTH // 3, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(65 + place),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": name,
            }
            for place, (name, expression) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
