"""Real traces as recordings: their events, their clock reports, and queries over them.

The traces lie outside the project (`benchmarks.traces`).
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import traces
from benchmarks.traces import BASE_NS, MS, S, TraceAbsent, folder
from tests.services import without_trace

Line = Mapping[str, Any]

FIXED = "rule: fixed, max_wait: 2s, late: side"
GUESSED = "clock: {unsynced: estimate}"


class Trace(NamedTuple):
    """A trace and the settings of its stream.

    Without arrival times in its lines, the order of the lines gives the order of arrival.
    """

    lines: Callable[[], Iterator[Line]]
    setting: str
    has_arrivals: bool = True


def events(rows: Iterable[traces.TraceRow]) -> Iterator[Line]:
    for row in rows:
        yield {
            "source": row.source,
            "seq": row.seq,
            "ts": row.ts_ns,
            "arrival": row.arrival_ns,
            "type": f"T{row.seq % 3}",
            "payload": {"who": row.source, "n": row.seq, "said": row.type},
        }


def phones(session: str) -> Iterator[Line]:
    """Yield phones on their own clocks, with the four timestamps of every eighth exchange."""
    rows = traces.read_jr_umts(session, own_clocks=True)
    for row, line in zip(rows, events(rows), strict=True):
        yield line
        if row.seq % 8 == 0:
            offset_ms = int(row.payload["ntp_offset_ms"])
            own = {n: int(row.payload[f"t{n}_ms"]) - offset_ms for n in (1, 4)}
            server = {n: int(row.payload[f"t{n}_ms"]) for n in (2, 3)}
            times = {f"t{n}": ms * MS for n, ms in sorted((own | server).items())}
            yield {"clock": row.source, **times}


def balloons() -> Iterator[Line]:
    """Yield balloons with declared offsets, one of which is retracted during the flight."""
    rows = traces.read_balloon_clocks()
    for source, offset_s in (("b1", 117), ("b2", 142), ("b3", 83)):
        word = {"clock": source, "at": 0, "offset": offset_s * S}
        yield {**word, "error": 2 * S}
    for at, line in enumerate(events(rows)):
        yield line
        if at == len(rows) // 2:
            yield {"clock": "b3", "at": line["arrival"], "offset": None}


def fields(name: str) -> Iterator[dict[str, str]]:
    path = folder() / name
    if not path.is_file():
        raise TraceAbsent(path)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def limecep(name: str) -> Iterator[Line]:
    """Yield a trace whose times are plain numbers, each step read as a millisecond."""
    for row in fields(f"limecep/{name}"):
        ts_ns = BASE_NS + int(row.get("ts") or row["ts_min"]) * MS
        values = {"who": "lime", "n": int(float(row["volume"] or 0))}
        line = {"source": "lime", "seq": int(row["id"]), "ts": ts_ns, "type": row["type"]}
        yield {**line, "payload": values}


def soccer() -> Iterator[Line]:
    numbers: dict[str, Iterator[int]] = {}
    for row in fields("soccer_tagging/match_2058004.csv.gz"):
        seq = next(numbers.setdefault(row["source"], count()))
        values = {"who": row["player"], "n": seq, "said": row["event"]}
        ts_ns = BASE_NS + int(row["event_ms"]) * MS
        yield {"source": row["source"], "seq": seq, "ts": ts_ns, "payload": values}


LIMECEP = ("az_ooo.csv.gz", "micro_inorder.csv.gz", "micro_ooo.csv.gz", "mini_duplicates.csv")
LIMECEP_MINI = ("mini_full.csv", "mini_inorder.csv", "mini_partial.csv")

TRACES: dict[str, Trace] = {
    "mesh_tdma": Trace(
        lambda: events(traces.read_mesh_sensors("tdma_interference")),
        "reorder: {infer_restart: true}",
    ),
    "mesh_shared": Trace(
        lambda: events(traces.read_mesh_sensors("shared_high_load")), f"reorder: {{{FIXED}}}"
    ),
    **{f"umts_{day}": Trace(lambda day=day: phones(day), GUESSED) for day in ("d1", "d2", "d4")},  # type: ignore[misc]
    "lorawan": Trace(lambda: events(traces.read_lorawan_gateways()), GUESSED),
    "balloons": Trace(balloons, "clock: {unsynced: reject}"),
    "quakes": Trace(lambda: events(traces.read_usgs_quakes()), "reorder: {rule: time}"),
    "brokers": Trace(lambda: events(traces.read_kafka_brokers()), ""),
    "quic": Trace(lambda: events(traces.read_quic_two_endpoints()), GUESSED),
    "soccer": Trace(soccer, f"reorder: {{{FIXED}}}", has_arrivals=False),
    **{
        name.partition(".")[0]: Trace(
            lambda name=name: limecep(name),  # type: ignore[misc]
            "reorder: {rule: fixed, max_wait: 50ms}",
            has_arrivals=False,
        )
        for name in (*LIMECEP, *LIMECEP_MINI)
    },
}

CROWDED = ("balloons", "brokers", "quic")
"""Traces with so many events within their errors that patterns take minutes."""

NEAR = {"umts_d1": ("umts_d2", "500ms"), "mesh_tdma": ("mesh_shared", "15ms")}


@cache
def lines_of(name: str) -> Sequence[Line]:
    """Return the lines of a trace with its stream, or skip the test with a message if the trace is
    missing.
    """
    try:
        return [line if "clock" in line else {"stream": name, **line} for line in read_lines(name)]
    except TraceAbsent as missing:
        without_trace(missing)


def read_lines(name: str) -> Iterator[Line]:
    return TRACES[name].lines()


def topology(names: Sequence[str]) -> str:
    """Return a topology with a stream for each trace, windows and patterns over each, and joins."""
    streams, queries = [], []
    for name in names:
        streams.append(f"  {name}: {{{TRACES[name].setting}}}")
        about = f"stream: {name}, "
        queries.append(f"  n_{name}: {{{about}window: tumbling 10s, aggregate: {{n: count()}}}}")
        queries.append(
            f"  s_{name}: {{{about}window: session 5s, key: payload.who,"
            " aggregate: {n: count(), m: avg(payload.n)}}"
        )
        if name not in CROWDED:
            pattern = "PATTERN SEQ(T0 a, !T1 b, T2 c) WHERE [who] WITHIN 50 ms RETURN c.n AS n"
            queries.append(f'  p_{name}: {{{about}pattern: "{pattern}"}}')
        other, within = NEAR.get(name, ("", ""))
        if other in names:
            sides = f"{{x: {{stream: {name}}}, y: {{stream: {other}}}}}"
            queries.append(
                f"  j_{name}: {{join: interval {within}, sides: {sides}, key: payload.n}}"
            )
    return "\n".join(["streams:", *streams, "queries:", *queries, ""])


def side_by_side(names: Sequence[str], most: int) -> Iterator[str]:
    """Yield the first lines of each trace, all in the order of arrival."""
    found: list[tuple[int, int, int, str]] = []
    for rank, name in enumerate(names):
        at_ns = 0
        for number, line in enumerate(lines_of(name)[:most]):
            if "clock" not in line:
                at_ns = max(at_ns, line.get("arrival", line["ts"]))
                line = {**line, "arrival": at_ns}
            found.append((at_ns, rank, number, json.dumps(line)))
    return (f"{text}\n" for *_, text in sorted(found))


def days(lines: Sequence[Line]) -> list[list[str]]:
    """Cut the lines by day, or by hour or minute if all of them lie within a day."""
    at_ns = 0
    stamped: list[tuple[datetime, str]] = []
    for line in lines:
        if "clock" not in line:
            at_ns = max(at_ns, line.get("arrival", line["ts"]))
        stamped.append((datetime.fromtimestamp(at_ns // S, UTC), f"{json.dumps(line)}\n"))
    for length in (10, 13, 16, 19):  # YYYY-MM-DDTHH:MM:SS
        cut = [
            [text for _, text in group]
            for _, group in groupby(stamped, lambda each: each[0].isoformat()[:length])  # noqa: B023
        ]
        if len(cut) > 2:
            break
    return cut


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path
