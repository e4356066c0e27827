"""Examples: the three detectors of the docs, as a user would test them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.user_functions import load_functions
from inorder.engine import RawEvent, parse, replay
from inorder.testing import check_detector, check_laws

FILE = Path("docs/examples/detectors.py")
DETECTORS = load_functions(FILE).detectors
MS = 1_000_000
START = 1_700_000_000_000 * MS
TOPOLOGY = """\
streams:
  default: {{clock: {{unsynced: trust}}, merge: {{max_wait: 1s, new_source_allowance: 0s}}}}
queries: {{q: {{detector: {name}, answer: {answer}}}}}
"""


def _events(payload: Any) -> list[RawEvent]:
    return [
        RawEvent(source="s", seq=seq, ts_ns=START + seq * 500 * MS, payload=payload(seq))
        for seq in range(60)
    ]


def _speeds(seq: int) -> dict[str, Any]:
    return {"machine": "press", "speed": 0.0 if 10 <= seq % 30 < 20 else 5.0}


def _positions(seq: int) -> dict[str, Any]:
    noise = Random(seq).gauss(0, 0.3)
    return {"x": 2.0 * seq * 0.5 + noise + (50.0 if seq == 40 else 0.0)}


def _points(seq: int) -> dict[str, Any]:
    return {"name": "abcdef"[Random(seq).randrange(6)], "points": 1 + seq % 5}


STREAMS = {"stop": _speeds, "stray": _positions, "top_three": _points}


def results_of(name: str, answer: str = "final") -> list[Any]:
    topology = parse(TOPOLOGY.format(name=name, answer=answer), detectors=DETECTORS)
    return [each for each in replay(topology, _events(STREAMS[name])) if hasattr(each, "op")]


def test_stop_is_found_and_updated() -> None:
    values = [(each.op, each.values["stopped_s"]) for each in results_of("stop")]
    assert values == [("emit", None), ("update", 5.0)] * 2


def test_stray_measurement_is_found() -> None:
    (found,) = results_of("stray")
    assert found.end_ns == START + 40 * 500 * MS
    assert abs(found.values["expected"] - 40.0) < 1.0


def test_top_three_is_emitted_on_change() -> None:
    tops = [[name for name, _ in each.values["top"]] for each in results_of("top_three")]
    points: dict[str, int] = {}
    expected: list[list[str]] = []
    for seq in range(60):
        payload = _points(seq)
        points[payload["name"]] = points.get(payload["name"], 0) + payload["points"]
        top = sorted(points, key=lambda each: (-points[each], each))[:3]
        if top != (expected[-1] if expected else []):
            expected.append(top)
    assert tops == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_detectors_pass_the_checks(name: str) -> None:
    report = check_detector(DETECTORS[name], _events(STREAMS[name]))
    assert report.state_bytes < 500
    text = TOPOLOGY.format(name=name, answer="speculate")
    laws = check_laws(
        text, _events(STREAMS[name]), max_delay_ns=900 * MS, orders=3, detectors=DETECTORS
    )
    assert laws.compared == 3
