"""Law: `inorder replay` prints the same for every batch size, including when streams are joined and
fall idle.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random

import pytest

from cli.files import replay
from recordings.lines import read_lines
from recordings.replayed import replay_lines
from recordings.summary import Summary
from tests.seeds import seeds_of_today
from topology.config import Topology, parse
from topology.stage.instants import whole_instants

SEEDS = seeds_of_today(2)
MS = 1_000_000
START = 1_700_000_000_000 * MS
SILENCES_MS = (8_000, 40_000, 300_000)

QUALITY = "quality: {accuracy: 90%, max_wait: 300ms}"
AB = "sides: {x: {stream: a}, y: {stream: b}}"
QUERIES = {
    "windows": f"""
  fixed: {{stream: a, window: tumbling 1s, aggregate: {{n: count(), s: sum(payload.v)}}}}
  sliding: {{stream: b, window: sliding 2s every 500ms, aggregate: {{n: count()}}, finals: true,
            early: 300ms}}
  session: {{stream: b, window: session 700ms, aggregate: {{n: count()}}, finals: true}}
  counted: {{stream: c, window: count 3, aggregate: {{n: count()}}, finals: true}}
  waiting: {{stream: b, window: tumbling 1s, aggregate: {{n: count()}}, {QUALITY}}}
""",
    "joins": f"""
  near: {{join: interval 400ms, {AB}, outer: full, finals: true}}
  cells: {{join: tumbling 1s, sides: {{x: {{stream: b}}, y: {{stream: c}}}}, outer: left}}
  three: {{join: interval 400ms, outer: full,
          sides: {{x: {{stream: a}}, y: {{stream: b}}, z: {{stream: c}}}}}}
  waiting: {{join: interval 400ms, {AB}, outer: left, {QUALITY}}}
""",
    "patterns": f"""
  gap: {{stream: b, pattern: "PATTERN SEQ(A x, !B n, C y) WITHIN 2 s", finals: true}}
  end: {{stream: b, pattern: "PATTERN SEQ(A x, !B n) WITHIN 2 s", finals: true}}
  waiting: {{stream: b, pattern: "PATTERN SEQ(A x, C y) WITHIN 2 s", {QUALITY}}}
""",
}


def topology(kind: str) -> Topology:
    streams = ", ".join(f"{name}: {{clock: {{unsynced: trust}}}}" for name in "abc")
    return parse(f"streams: {{{streams}}}\nqueries:{QUERIES[kind]}")


def recording(path: Path, seed: int, n: int = 300) -> Path:
    """Write a recording with two sources for each stream.

    Some events are late, lost, duplicate or malformed, and at times a stream is idle.
    """
    rng = Random(seed)
    seqs: dict[str, int] = {}
    silent_ms: dict[str, int] = {}
    lines = []
    ms = 0
    for _ in range(n):
        ms += rng.choice((1, 20, 50, 200, 200, 900, 5_000 if rng.random() < 0.1 else 10))
        if rng.random() < 0.02:
            silent_ms[rng.choice("abc")] = ms + rng.choice(SILENCES_MS)
        stream = rng.choice([name for name in "abc" if silent_ms.get(name, 0) <= ms] or ["a"])
        source = f"{stream}{rng.randrange(2)}"
        seqs[source] = seqs.get(source, -1) + 1
        if rng.random() < 0.03:
            continue
        late_ms = rng.choice((0, 1, 3)) + (rng.randrange(600) if rng.random() < 0.15 else 0)
        times = {"ts": START + ms * MS, "arrival": START + (ms + late_ms) * MS}
        line = {"stream": stream, "source": source, "seq": seqs[source], **times}
        line |= {"type": rng.choice("ABC"), "payload": {"v": rng.randint(0, 9)}}
        lines.append((ms + late_ms, line))
        if rng.random() < 0.05:
            lines += [lines[-1], (ms + late_ms, {**line, "seq": "x"})]
    lines.sort(key=lambda each: each[0])
    path.write_text("".join(json.dumps(line) + "\n" for _, line in lines))
    return path


def printed(asked: Topology, path: Path) -> list[bytes]:
    out = io.BytesIO()
    steps = replay_lines(asked, read_lines(str(path), reading=asked.reading()), Summary())
    for step in whole_instants(steps, asked):
        replay.write(step, frozenset(replay.KINDS), out)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("kind", QUERIES)
def test_batch_size_changes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    for seed in SEEDS:
        path = recording(tmp_path / f"{seed}.jsonl", seed)
        answers = []
        for lines in (256, 64, 1):
            monkeypatch.setattr("topology.stage.batches.BATCH", lines)
            answers.append(printed(topology(kind), path))
        assert answers[0] == answers[1] == answers[2], f"seed {seed}"
        count += sum(b'"kind":"event"' not in line for line in answers[0])
    assert count > 100 * len(SEEDS) if kind != "patterns" else count > 20 * len(SEEDS)
