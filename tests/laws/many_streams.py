"""Draw topologies over several streams of which some become silent, and their recordings.

A topology has two to five streams, each with its own rules, clock and waits. It has windows,
patterns and joins of each kind over them. Its recording has the faults of `tests.laws.streams` for
each stream, and silences: of a stream, of a source, and of all at once. Some of the streams are
silent at its end. Times fall on few instants, so ties are common, including ties between streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from tests.kit.topologies import in_code
from topology.config import Topology
from topology.records.line_reader import Content, LineReader, Row

MS: Final = 1_000_000
START_MS: Final = 1_700_000_000_000
SILENCES_MS: Final = (700, 2_500, 8_000, 40_000, 300_000)
TICK_MS: Final = 10
"""Most times are multiples of this."""

Values = Mapping[str, Any]

REORDER: Final = (
    "",
    "reorder: {max_wait: 200ms}, ",
    "reorder: {rule: fixed, max_wait: 300ms, late: side}, ",
    "reorder: {late: drop}, |reorder: thesis",
    "reorder: {start: zero}, |reorder: rfc",
    "reorder: {rule: time}, ",
    "reorder: {rule: time, max_wait: 150ms}, ",
    "reorder: {max_held: 4, max_jump: 100}, ",
)
CLOCK: Final = (
    "clock: {unsynced: trust}, ",
    "clock: {unsynced: trust}, ",
    "",
    "clock: {activation: 20ms}, |clock: thesis",
    "clock: {unsynced: reject, activation: 20ms}, ",
)
"""Text after a bar goes to `experimental`."""
MERGE: Final = (
    "",
    "merge: {max_wait: 100ms, idle_after: 400ms, quiet_after: 1s}",
    "|merge: thesis",
    "merge: {new_source_allowance: 0s, quiet_after: 4s, outage_wait: 2s}",
    "merge: {max_queued: 5, idle_after: 1s}",
    "merge: {max_wait: 2s, idle_after: 5s, expected_sources: [zz]}",
)
WHOLE: Final = (
    "heartbeat: 50ms",
    "heartbeat: 1s",
    "watermark: false",
    "correct_for: 3s",
    "correct_for: 0s",
)
QUALITY: Final = (
    "quality: {accuracy: 90%, max_wait: 300ms}",
    "quality: {accuracy: 70%, max_wait: 2s}",
    "quality: {accuracy: 90%, max_wait: 500ms}, experimental: {quality: prob_slack}",
    "quality: {accuracy: 90%, max_wait: 500ms}, experimental: {quality: event_driven}",
    "quality: {accuracy: 90%, max_wait: 500ms}, experimental: {quality: aq}",
    "quality: {accuracy: 90%, max_wait: 500ms}, experimental: {quality: mean_delay}",
)
WINDOW: Final = ("tumbling 1s", "sliding 2s every 500ms", "session 700ms", "count 3")
AGGREGATE: Final = "aggregate: {n: count(), s: sum(payload.v), l: last(payload.v)}"
PATTERN: Final = (
    "PATTERN SEQ(A x, B y) WITHIN 1 s",
    "PATTERN SEQ(A x, !B n, C y) WITHIN 2 s",
    "PATTERN SEQ(A x, !B n) WITHIN 2 s",
    "PATTERN SEQ(A x, B+ b, C y) WITHIN 1 s",
)
JOIN: Final = ("interval 400ms", "tumbling 1s", "sliding 2s every 1s")
OUTER: Final = ("inner", "left", "full")


def topology_of(seed: int) -> Topology:
    return in_code(text_of(seed))


def _stream(rng: Random) -> str:
    parts = [rng.choice(each).partition("|") for each in (REORDER, CLOCK, MERGE)]
    methods = ", ".join(method for _, _, method in parts if method)
    sections = [section.rstrip(", ") for section, _, _ in parts if section]
    return ", ".join([*sections, f"experimental: {{{methods}}}"] if methods else sections)


def text_of(seed: int) -> str:
    rng = Random(seed)
    names = "abcde"[: rng.randint(2, 5)]
    lines = ["streams:"]
    lines += [f"  {name}: {{{_stream(rng)}}}" for name in names]
    whole = {each.partition(":")[0]: each for each in rng.sample(WHOLE, 2)}
    lines += whole.values()
    lines.append("queries:")
    for name in names:
        if rng.random() < 0.7:
            lines.append(f"  windows_{name}: {{stream: {name}, {_window(rng)}}}")
        if rng.random() < 0.4:
            lines.append(f"  more_{name}: {{stream: {name}, {_window(rng)}}}")
        if rng.random() < 0.4:
            promise = f", {rng.choice(QUALITY[:2])}" if rng.random() < 0.4 else ""
            finals = f", finals: true{promise}" if rng.random() < 0.5 else promise
            lines.append(
                f'  pattern_{name}: {{stream: {name}, pattern: "{rng.choice(PATTERN)}"{finals}'
                f"{_answer(rng)}}}"
            )
    for number in range(rng.choice((0, 1, 1, 2))):
        lines.append(f"  join_{number}: {{{_join(rng, names)}}}")
    return "\n".join(lines) + "\n"


def _window(rng: Random) -> str:
    window = rng.choice(WINDOW)
    parts = [f"window: {window}", AGGREGATE]
    if rng.random() < 0.4:
        parts.append("key: payload.k")
    if rng.random() < 0.4:
        parts.append("finals: true")
    if rng.random() < 0.4:
        parts.append("early: 300ms")
    if rng.random() < 0.3:
        parts.append(rng.choice(QUALITY))
    return ", ".join(parts) + _answer(rng)


def _join(rng: Random, names: str) -> str:
    met = rng.sample(names, min(len(names), rng.choice((2, 2, 3))))
    sides = ", ".join(f"{side}: {{stream: {name}}}" for side, name in zip("xyz", met, strict=False))
    parts = [f"join: {rng.choice(JOIN)}", f"sides: {{{sides}}}", f"outer: {rng.choice(OUTER)}"]
    if rng.random() < 0.5:
        parts.append("finals: true")
    if rng.random() < 0.3:
        parts.append(rng.choice(QUALITY[:2]))
    if rng.random() < 0.7:
        parts.append("key: payload.k")
    return ", ".join(parts) + _answer(rng)


def _answer(rng: Random) -> str:
    """Return the setting `answer`, or nothing: a third of the queries are speculative."""
    return rng.choice((", answer: speculate", "", ""))


def contents_of(topology: Topology, seed: int, n: int = 150) -> list[Content]:
    """Return fresh contents at each call, because a run changes its events."""
    reader = LineReader(topology.reading())
    rows = recording(tuple(topology.streams), seed, n)
    return [reader.read(Row(number, row)) for number, row in enumerate(rows, start=1)]


def recording(names: tuple[str, ...], seed: int, n: int) -> list[Values]:
    """Return the lines of a replay, in order of arrival."""
    rng = Random(seed)
    seqs: dict[str, int] = {}
    silent_ms: dict[str, int] = {}
    rows: list[tuple[int, Values]] = []
    pace = rng.choice((TICK_MS, 5 * TICK_MS, 20 * TICK_MS))
    ms = START_MS
    for _ in range(n):
        ms += rng.choice((0, 0, pace, pace, 3 * pace))
        if rng.random() < 0.03:
            whoever = rng.choice([*names, *(f"{name}0" for name in names)])
            silent_ms[whoever] = ms + rng.choice(SILENCES_MS)
        if rng.random() < 0.01:
            ms += rng.choice(SILENCES_MS)
        speaking = [name for name in names if silent_ms.get(name, 0) <= ms]
        stream = rng.choice(speaking or names[:1])
        sources = [f"{stream}{number}" for number in range(3)]
        source = rng.choice([each for each in sources if silent_ms.get(each, 0) <= ms])
        rows += _lines(rng, stream, source, ms, seqs)
    rows.sort(key=lambda each: each[0])
    return [row for _, row in rows]


def _lines(
    rng: Random, stream: str, source: str, ms: int, seqs: dict[str, int]
) -> Iterator[tuple[int, Values]]:
    """Yield lines, each with its arrival time."""
    fate = rng.random()
    arrival_ms = ms + rng.choice((0, TICK_MS, TICK_MS, 3 * TICK_MS))
    if rng.random() < 0.15:
        arrival_ms += TICK_MS * rng.randrange(1, 100)
    if fate < 0.05:
        server_ms, behind_ms = ms - 3, ms - rng.choice((5, 45))
        yield (
            ms,
            {
                "clock": source,
                "t1": (behind_ms - 4) * MS,
                "t2": server_ms * MS,
                "t3": server_ms * MS,
                "t4": behind_ms * MS,
                "arrival": ms * MS,
            },
        )
        return
    if fate < 0.06:
        yield ms, {"clock": source, "at": ms * MS, "offset": 2 * MS, "error": MS}
        return
    if fate < 0.08:
        yield arrival_ms, {"source": source, "stream": stream, "arrival": arrival_ms * MS}
        return
    if fate < 0.09:
        yield arrival_ms, {"source": source, "stream": "nobody's", "seq": 0, "ts": ms * MS}
        return
    seqs[source] = seq = seqs.get(source, -1) + 1
    if fate < 0.13:
        return  # This event is lost.
    row: dict[str, Any] = {"stream": stream, "source": source, "seq": seq, "ts": ms * MS}
    if fate < 0.16:
        row["kind"] = rng.choice(("heartbeat", "bye"))
    else:
        row["type"] = rng.choice("ABC")
        row["payload"] = {"v": rng.randint(0, 9), "k": rng.choice("pq")}
    yield arrival_ms, {**row, "arrival": arrival_ms * MS}
    if fate > 0.96:
        again_ms = arrival_ms + TICK_MS * rng.randrange(200)
        yield again_ms, {**row, "arrival": again_ms * MS}
