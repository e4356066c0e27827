"""Examples: the fields of a detector's results, its counts, and what is refused when the file is
read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents.user_functions import load_functions
from inorder.engine import Detector, Found, Seen, TopologyError, parse
from inorder.testing import TopologyDriver
from topology.base.user_functions import BadFunctions

MS = 1_000_000
STREAM = "streams: {default: {clock: {unsynced: trust}, merge: {new_source_allowance: 0s}}}\n"


def _large(state: int, event: Seen) -> Any:
    found = Found({"v": event.payload["v"]}, start_ns=event.time_ns - 5, events={"it": event})
    return state + 1, found if event.payload["v"] > 10 else None


def driver(query: str, more: str = "", **detectors: Any) -> TopologyDriver:
    own = {"large": Detector(_large, 0, types=["A"]), **detectors}
    text = f"{STREAM}{more}queries:\n  q: {{{query}}}\n"
    return TopologyDriver(text, detectors=own, raise_failures=False)


def send(to: TopologyDriver, seq: int, value: Any, type_: str = "A") -> None:
    line = {"source": "s", "seq": seq, "ts": to.now_ns, "type": type_, "payload": value}
    to.advance(MS)
    to.send(line)


def results(run: TopologyDriver) -> list[Any]:
    return [each for each in run.read() if hasattr(each, "op")]


def test_result_names_its_events() -> None:
    run = driver("detector: large, key: payload.k")
    send(run, 0, {"k": "left", "v": 11})
    send(run, 1, {"k": "left", "v": 1})
    run.end()
    (found,) = results(run)
    assert (type(found).__name__, found.query) == ("MatchRecord", "q")
    assert (found.op, found.revision, found.confidence) == ("emit", 0, "confirmed")
    assert (found.values, found.key) == ({"v": 11}, "left")
    assert found.end_ns - found.start_ns == 5
    assert [(each.alias, each.source, each.seq) for each in found.events] == [("it", "s", 0)]


def test_unfit_events_give_no_result() -> None:
    run = driver("detector: large, key: payload.k")
    send(run, 0, {"k": 1, "v": 12}, type_="B")
    send(run, 1, {"v": 12})
    send(run, 2, {"k": [1], "v": 12})
    run.end()
    assert not results(run)
    assert run.balance().holds


def test_failing_step_is_reported() -> None:
    run = driver("detector: large")
    send(run, 1, {"w": 1})
    run.end()
    assert any("large.step" in str(failure) for failure in run.failures)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("detector: larg", "there is no detector `larg`"),
        ("detector: large, aggregate: {n: count()}", "belongs to a window, not to a detector"),
        ("detector: large, quality: {}", "has no effect on a detector"),
        ("detector: large, speculate: {share: 50%}", "has no effect with `answer: early`"),
        ("detector: large, answer: sooner", "is not known here"),
        ("detector: large, answer: speculate, speculate: {share: 0%}", "share"),
        ("detector: large, max_windows: 3", "belongs to a window, not to a detector"),
        ("window: count 3, aggregate: {n: count()}, max_keys: 3", "belongs to a detector"),
    ],
)
def test_bad_query_is_refused(query: str, wrong: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(wrong)):
        driver(query)


@pytest.mark.parametrize("merge", ["merge", "reorder+merge"])
def test_speculation_in_other_stage_fails(merge: str) -> None:
    stages = f"[{merge}, detector]" if "+" in merge else f"[reorder, {merge}, detector]"
    with pytest.raises(TopologyError, match=re.escape(f"join them: {merge}+detector")):
        driver("detector: large, answer: speculate", f"stages: {stages}\n")


def test_speculation_shares_stage_of_merge() -> None:
    own = {"large": Detector(_large, 0)}
    query = "queries: {q: {detector: large, answer: speculate}}"
    (stage,) = parse(f"{STREAM}{query}", detectors=own).stages
    assert (stage.name, stage.operators[-1]) == ("all", "detector")
    written = parse(f"{STREAM}stages: [reorder, merge+detector, window]\n{query}", detectors=own)
    assert [stage.name for stage in written.stages] == ["reorder", "merge+detector", "window"]
    behind = parse(f"{STREAM}queries: {{q: {{detector: large}}}}", detectors=own)
    assert behind.reads_of("detector") == "ordered"


def test_bad_detector_in_file_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("detectors = {'large': 3}\n")
    with pytest.raises(BadFunctions, match="the detector 'large': it is neither"):
        load_functions(bad)
