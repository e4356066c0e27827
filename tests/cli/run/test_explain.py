"""Examples: `inorder explain` puts a worker's answer into words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
import yaml

from agents.watch.location import ASK_ANOTHER, STANDBY
from cli.run.explain import explain
from tests.cli.invoking import inorder

MS = 1_000_000
NOW = 1_000 * MS


def parsed(text: str) -> Any:
    return yaml.safe_load(text)


HOLE = parsed("{epoch: 0, held: 3, later_epochs: [], reason: hole, missing: [7, 9]}")


def entry(source: str, **fields: Any) -> dict[str, Any]:
    times = {"since": NOW - 20 * MS, "deadline": NOW + 30 * MS}
    return {"source": source, **HOLE, **times, **fields}


WAITING = [
    entry("s1"),
    entry("s2", epoch=4, held=1, missing=[7, 7]),
    entry("s3", reason="start", missing=None),
    entry("s4", reason="jump", missing=None, deadline=NOW - MS),
]
REORDER: dict[str, Any] = {
    "now": NOW,
    "streams": {"pitch": {"reorder": {"waiting": WAITING}}},
    **parsed("{stage: reorder, topic: raw, partition: 2, next_offset: 50, high_watermark: 60}"),
    **parsed("{lag_ns: 168000000000, held: 5, overtaken: 0, alignment: null}"),
}
MERGE: dict[str, Any] = {"now": NOW} | parsed("""
stage: merge
topic: events.sequenced
partition: 0
next_offset: 5
high_watermark: 5
held: 2
overtaken: 0
alignment: {waiting_for: [b/1, b/3], waivers: 0}
streams:
  pitch:
    merge:
      sources: 3
      queued: 2
      head: {source: s1, ref_time: 77}
      waits_for:
        - {source: s2, newest: 70, behind_hole: true, after_pause: false, until: null}
        - {source: s3, newest: null, behind_hole: false, after_pause: false, until: 99}
  court: {merge: {queued: 0, head: null, waits_for: []}}
""")


QUIET = REORDER | {"held": 0, "next_offset": 9, "high_watermark": 9, "streams": {}}
WORDS = [
    "reorder raw/2: 5 buffered, next offset 50, end 60, 168.0 s behind",
    "  pitch/s1 epoch 0: 3 buffered after a gap at numbers 7 to 9, for 20 ms, at most 30 ms more",
    "  pitch/s2 epoch 4: 1 buffered after a gap at number 7, for 20 ms, at most 30 ms more",
    (
        "  pitch/s3 epoch 0: 3 buffered until the first number of its source is known, for 20 ms,"
        " at most 30 ms more"
    ),
    (
        "  pitch/s4 epoch 0: 3 buffered because its number jumped and no other event has confirmed"
        " it, for 20 ms, at most 0 ms more"
    ),
    "merge events.sequenced/0: 2 buffered, next offset 5, end 5",
    "  waits for progress of b/1, b/3",
    "  pitch: 2 wait for the merge, the first from s1 (ref_time 77)",
    "    held back by s2: its events are buffered after a gap",
    "    held back by s3: it is idle, until 99 at most",
]


def told(partitions: list[dict[str, Any]], source: str | None) -> list[str]:
    return [*explain(partitions, source)]


def test_late_causes_are_named() -> None:
    merge = parsed("""
      queued: 1
      late_by_cause: {merge_idle: 3, merge_wait: 1}
      head: {source: s1, ref_time: 77}
      waits_for: [{source: s2, newest: 70, behind_hole: false, after_pause: true, until: 99}]
    """)
    lines = told([MERGE | {"streams": {"pitch": {"merge": merge}}}], None)
    assert "  pitch: late at the merge: merge_idle 3, merge_wait 1" in lines
    assert any("the log paused and the source has not resumed" in line for line in lines)


def test_set_back_sources_are_named() -> None:
    merge = parsed("""
      {queued: 0, head: null, waits_for: [], set_backs: 40, set_backs_beyond: 3,
       set_back_ns: 2500000000, max_set_back_ns: 0, sets_back: {gate: 2500000000, port: 10}}
    """)
    part = MERGE | {"streams": {"pitch": {"merge": merge}}}
    remedy = "; write clock: {max_set_back: 3s} if this goes on"
    found = "events of gate, port were set back by up to 2500 ms, 3 in all below"
    assert f"  pitch: {found} the completeness frontier{remedy}" in told([part], None)
    alone = f"  pitch: events of gate were set back by up to 2500 ms{remedy}"
    assert alone in told([part], "gate")
    assert not any("set back" in line for line in told([part], "other"))
    merge["max_set_back_ns"] = 3_000_000_000
    assert not any("set back" in line for line in told([part], None))


def test_all_buffered_events_are_explained() -> None:
    assert told([REORDER, MERGE], None) == WORDS


def test_one_source_is_explained_alone() -> None:
    about = told([REORDER, MERGE], "s2")
    assert [line for line in about if "s2" in line] == [WORDS[2], WORDS[8]]
    assert not any(source in line for line in about for source in ("s3", "s4"))


def test_caught_up_partitions_are_counted() -> None:
    streams = {"court": MERGE["streams"]["court"]}
    alignment = {"waiting_for": [], "waivers": 0}
    idle = MERGE | {"held": 0, "alignment": alignment, "streams": streams}
    behind = idle | {"partition": 4, "next_offset": 2}
    everything = "all 8 partitions are caught up"
    assert told([idle] * 8, None) == [everything]
    assert told([idle, behind, idle], None) == [
        "merge events.sequenced/4: 0 buffered, next offset 2, end 5",
        "the other 2 partitions are caught up",
    ]
    assert told([REORDER, idle], "s1")[-1] == "no event of s1 waits in one partition"
    assert told([], None) == ["no partition is assigned to this worker"]


def test_task_counts_buffered_once() -> None:
    own = {name: REORDER[name] for name in ("topic", "next_offset", "high_watermark", "lag_ns")}
    lanes = [{**own, "partition": number, "lag_ns": number * 10**9} for number in range(3)]
    task = REORDER | {"partition": 0, "lanes": lanes}
    assert told([task], None) == [
        "reorder raw/0 and 2 other partitions: 5 buffered",
        "  raw/0: next offset 50, end 60",
        "  raw/1: next offset 50, end 60, 1.0 s behind",
        "  raw/2: next offset 50, end 60, 2.0 s behind",
        *WORDS[1:5],
    ]
    assert told([task | {"lanes": lanes[:2]}], None)[0].startswith("reorder raw/0 and another par")
    rests = QUIET | {"lanes": [QUIET] * 3}
    assert told([rests], None) == ["all 3 partitions are caught up"]
    assert told([rests, task], None)[-1] == "the other 3 partitions are caught up"


def test_healthy_clocks_are_omitted() -> None:
    known = clocks(clock("s1", "synced"), clock("s2", "synced"), synced=2)
    answer = [known | {"held": 0, "next_offset": 60}]
    assert told(answer, None) == ["one partition is caught up"]
    assert told(answer, "s1")[-1].startswith("    s1: synced")


EVENT = "/event?source=s+1&seq=17&epoch=2"
ANSWER = {"where": "held", "said": ["default: s 1/2/17: held", "  waits"], "found": []}


class Worker(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, Any]] = {"/explain": [REORDER, MERGE], EVENT: ANSWER}

    def do_GET(self) -> None:
        self.send_response(200 if self.path in self.answers else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.answers.get(self.path)).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Standby(Worker):
    answers: ClassVar[dict[str, Any]] = {
        "/explain": [],
        "/health": {"stages": {"all": {"core": "in Python", STANDBY: "yes"}, "windows": {}}},
    }


@contextmanager
def serving(kind: type[Worker]) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def worker() -> Iterator[str]:
    with serving(Worker) as address:
        yield address


def test_standby_refers_to_another_worker() -> None:
    with serving(Standby) as standby:
        assert inorder("explain", standby).well().out == f"stage all: {ASK_ANOTHER}\n"


def test_each_address_form_is_accepted(worker: str) -> None:
    """Addresses work in the forms that `dev` and a worker print, including a page's URL."""
    for address in (worker, f"http://{worker}", f"http://{worker}/", f"http://{worker}/ready"):
        assert inorder("explain", address).well().out.splitlines() == WORDS
    answer = inorder("explain", worker, "--json")
    assert json.loads(answer.out) == [REORDER, MERGE]


def test_one_event_is_explained(worker: str) -> None:
    asked = ("explain", worker, "--source", "s 1", "--seq", "17", "--epoch", "2")
    answer = inorder(*asked)
    assert (answer.code, answer.out.splitlines()) == (0, ANSWER["said"])
    assert json.loads(inorder(*asked, "--json").out) == ANSWER


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--seq", "17"), "--seq alone does not name an event; write --source as well"),
        (("--source", "s", "--epoch", "2"), "--epoch and --stream need --seq"),
    ],
)
def test_incomplete_event_is_refused(options: tuple[str, ...], words: str) -> None:
    inorder("explain", "127.0.0.1:1", *options).refused(words)


def clock(source: str, state: str, **fields: Any) -> dict[str, Any]:
    measured = {"offset_ns": -3_600_000 * MS, "error_ns": MS // 4, "skew_ppb": None, "segment": 0}
    return {"source": source, "state": state, **measured, **fields}


def clocks(*known: dict[str, Any], policy: str | None = None, **counts: int) -> dict[str, Any]:
    """Return a partition with one stream; `counts` has the number of clocks in each state."""
    states = dict.fromkeys(("synced", "stale", "unsynced", "suspect", "broken"), 0)
    found: dict[str, Any] = {"sources": sum(counts.values()), **states, **counts}
    found |= {"clocks": [*known]} | ({"policy": policy} if policy else {})
    return REORDER | {"streams": {"pitch": {"clock": found}}}


def test_troubled_clocks_are_named() -> None:
    named = (
        clock("s1", "broken", segment=3),
        clock("s2", "unsynced"),
        clock("s3", "synced", skew_ppb=-199_960),
    )
    answer = [clocks(*named, synced=2, unsynced=1, broken=1)]
    _, summary, broken, *remedies = told(answer, None)
    assert summary == "  pitch: clocks of 4 sources: 2 synced, 1 unsynced, 1 broken"
    offset = "ref_time = ts -3600000.000 ms, give or take 0.250 ms"
    assert broken == f"    s1: broken, {offset}, segment 3"
    third = f"    s3: synced, {offset}, runs +200.0 ppm off, segment 0"
    assert third in told(answer, "s3")
    assert [line.split(":")[0] for line in remedies] == ["1 unsynced", "1 broken"]
    assert "inorder sync-server" in remedies[0]
    assert "clock: {unsynced: trust}" in remedies[0]


@pytest.mark.parametrize(
    ("policy", "advised"), [("trust", ["1 stale"]), ("reject", ["1 stale", "1 unsynced"])]
)
def test_active_policy_is_not_advised(policy: str, advised: list[str]) -> None:
    """A stream that trusts unsynced clocks gets no advice about them."""
    lines = told([clocks(synced=1, stale=1, unsynced=1, policy=policy)], None)
    assert sorted(line.split(":")[0] for line in lines if line[0] == "1") == advised


def test_clock_advice_is_given_once() -> None:
    lines = told([clocks(unsynced=3), clocks(unsynced=3)], None)
    assert len([line for line in lines if "sync-server" in line]) == 1
    assert lines[-1].startswith("6 unsynced: ")


def test_wrong_clocks_get_no_trust_advice() -> None:
    lines = told([clocks(unsynced=3, corrected_by_arrival=1_200)], None)
    assert lines[-1].endswith("clocks are wrong: 1,200 events were corrected by arrivals")
    assert "trust" not in lines[-1]


def test_total_failure_comes_first() -> None:
    """All partitions of the stage are counted together; the second has read nothing yet."""
    why = [1, 4, "header `sourceId` is missing; write it", 3, "raw/2"]
    parts = [
        QUIET | {"deaths": {"read": 3, "reasons": {"source_missing": why}}},
        QUIET | {"partition": 3, "deaths": {"read": 0, "reasons": {}}},
    ]
    assert told(parts, None)[0] == (
        "reorder: every record is a dead letter (3), with reason source_missing; raw/2 offset 4:"
        " header `sourceId` is missing; write it"
    )


def test_unmet_query_is_reported_once() -> None:
    """One report covers the stage, although each of its partitions sends it."""
    word = "no event of type `Dor`; types seen: Door, Reading"
    parts = [QUIET | {"stage": "pattern", "partition": n, "unmet": {"q": [word]}} for n in (0, 1)]
    assert told(parts, None) == [
        f"pattern: query q: {word}",
        "all 2 partitions are caught up",
    ]
