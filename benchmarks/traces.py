"""Read real traces as rows in arrival order.

They are outside of the project, in `../shared/data` beside it or in the folder of the environment
variable INORDER_DATA. Several of them may not be copied into the project (see their README.md). If
the folder is absent, `TraceAbsent` is raised, and tests are skipped with the path.

A trace row has the recorder's own fields as `payload`. Arrivals never decrease: a smaller one is
raised to that of the row before it. Clocks that count from their own start begin at `BASE_NS`.

| trace              | source     | seq              | ts                  | arrival          |
|--------------------|------------|------------------|---------------------|------------------|
| mesh_sensors       | first node | packet number    | slot of making      | slot at the root |
| jr_umts            | phone      | per-phone number | detection           | server receives  |
| ... own clocks     | phone      | per-phone number | minus the offset    | server receives  |
| lorawan_gateways   | gateway    | frame counter    | gateway's clock (1) | archive          |
| balloon_clocks     | balloon    | row number       | logger's clock      | GPS time         |
| usgs_quakes        | network    | rank by time (2) | quake               | last update      |
| kafka_brokers      | broker     | line number      | log time            | log time (3)     |
| quic_two_endpoints | direction  | packet number    | sender's clock (4)  | receiver's clock |
| limecep            | one        | number by time   | step, as ms         | largest ts (5)   |
| soccer_tagging     | team       | line of the team | of the tag          | largest ts (5)   |

(1) The arrival replaces it if a gateway has no clock. (2) The feed has no numbers. The number of a
quake is its rank by (time, id) in its network, as if the network had numbered its quakes as they
happened. (3) The logs were written locally, so the delay on their way is unknown. (4) Both clocks
are mapped to the client's time by the file's corrected timestamps (the server's starts 100 ms
later). (5) This is the largest timestamp so far: the rows are in order of arrival, without arrival
times.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.workloads.rows import Row
from benchmarks.workloads.rows import to_events as rows_to_events
from topology.base.event import Event

PATH_VARIABLE: Final = "INORDER_DATA"
BASE_NS: Final = 1_400_000_000 * 1_000_000_000
SLOT_NS: Final = 15_000_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
QUIC_SERVER_START_NS: Final = 100 * MS

Fields = dict[str, str]


class TraceAbsent(Exception):
    """The error for a trace whose folder or file is absent."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no trace at {path}: set {PATH_VARIABLE} to the folder that holds the traces"
        )
        self.path = path


class TraceRow(NamedTuple):
    """One arrival. Times are in ns, and `payload` contains the recorder's fields unchanged."""

    arrival_ns: int
    source: str
    seq: int
    ts_ns: int
    type: str
    payload: dict[str, Any]

    def row(self) -> Row:
        return Row(self.arrival_ns, self.source, self.seq, self.ts_ns)


def folder() -> Path:
    """Return the folder of the traces; raise TraceAbsent if it does not exist."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get(PATH_VARIABLE) or default)
    if not path.is_dir():
        raise TraceAbsent(path)
    return path


def to_events(rows: Sequence[TraceRow], stream: str = "default", epoch: int = 0) -> list[Event]:
    """Return the events of `rows`, whose `offset` is the position in the trace."""
    events = rows_to_events((row.row() for row in rows), stream, epoch)
    for event, row in zip(events, rows, strict=True):
        event.value, event.type = row.payload, row.type
    return events


def read_mesh_sensors(experiment: str = "tdma_interference") -> list[TraceRow]:
    """Read `tdma_interference` or `shared_high_load`: loss, duplicates, disorder, restarts."""

    def of(fields: Fields) -> TraceRow:
        made, arrived = (int(fields[name]) * SLOT_NS for name in ("first_slot", "last_slot"))
        seq = int(fields["seq"])
        return TraceRow(BASE_NS + arrived, fields["source"], seq, BASE_NS + made, "", fields)

    return _clamp(of(fields) for fields in _read(f"mesh_sensors/{experiment}.csv.gz"))


def read_jr_umts(session: str = "d1", *, own_clocks: bool = False) -> list[TraceRow]:
    """Read session `d1`, `d2` or `d4`.

    With `own_clocks` the timestamps are those of the phones' clocks, up to 30 s apart; otherwise
    they are on the server's clock.
    """

    def of(fields: Fields) -> TraceRow:
        offset_ms = int(fields["ntp_offset_ms"]) if own_clocks else 0
        ts_ns = (int(fields["event_ms"]) - offset_ms) * MS
        arrival_ns, seq = int(fields["arrival_ms"]) * MS, int(fields["seq"])
        return TraceRow(arrival_ns, fields["source"], seq, ts_ns, "", fields)

    return _clamp(of(fields) for fields in _read(f"jr_umts/{session}.csv.gz"))


def read_lorawan_gateways() -> list[TraceRow]:
    """Read LoRaWAN gateways, with dozens of duplicates, and clocks that are years off or absent."""

    def of(fields: Fields) -> TraceRow:
        arrival_ns = int(fields["archive_ms"]) * MS
        ts_ns = int(fields["gw_ms"]) * MS if fields["gw_ms"] else arrival_ns
        return TraceRow(arrival_ns, fields["gateway"], int(fields["fcnt"]), ts_ns, "", fields)

    return _clamp(of(fields) for fields in _read("lorawan_gateways/station.csv.gz"))


def read_balloon_clocks() -> list[TraceRow]:
    """Read three loggers whose clocks are 83 to 142 s behind GPS time."""

    def of(fields: Fields) -> TraceRow:
        arrival_ns, ts_ns = int(fields["gps_s"]) * S, int(fields["local_s"]) * S
        return TraceRow(
            arrival_ns, fields["source"], int(fields["seq"]), ts_ns, fields["state"], fields
        )

    names = ("b1", "b2", "b3")
    return _merge(
        _clamp(of(fields) for fields in _read(f"balloon_clocks/{name}.csv.gz")) for name in names
    )


def read_usgs_quakes() -> list[TraceRow]:
    """Read one week of earthquakes, which are up to days late."""
    quakes = list(_read("usgs_quakes/quakes.csv.gz"))
    rank: dict[str, int] = {}
    count: dict[str, int] = {}
    for fields in sorted(quakes, key=lambda quake: (int(quake["event_ms"]), quake["id"])):
        rank[fields["id"]] = count.get(fields["net"], 0)
        count[fields["net"]] = rank[fields["id"]] + 1

    def of(fields: Fields) -> TraceRow:
        arrival_ns, ts_ns = int(fields["updated_ms"]) * MS, int(fields["event_ms"]) * MS
        seq = rank[fields["id"]]
        return TraceRow(arrival_ns, fields["net"], seq, ts_ns, fields["type"], fields)

    return _clamp(map(of, quakes))


def read_kafka_brokers() -> list[TraceRow]:
    """Read the state changes of three brokers, with long silences and many equal times."""

    def of(fields: Fields) -> TraceRow:
        ts_ns = int(fields["ts_ms"]) * MS
        return TraceRow(ts_ns, fields["source"], int(fields["seq"]), ts_ns, fields["kind"], fields)

    by_broker: dict[str, list[TraceRow]] = {}
    for fields in _read("kafka_brokers/state_changes.csv.gz"):
        by_broker.setdefault(fields["source"], []).append(of(fields))
    return _merge(map(_clamp, by_broker.values()))


def read_quic_two_endpoints() -> list[TraceRow]:
    """Read one connection as seen from both ends.

    The five lost packets are the last ones, so the numbers that arrived do not show that any is
    missing.
    """

    def of(fields: Fields) -> TraceRow:
        from_server = fields["direction"] == "server_to_client"
        sender_ns, receiver_ns = (
            (QUIC_SERVER_START_NS, 0) if from_server else (0, QUIC_SERVER_START_NS)
        )
        ts_ns = BASE_NS + sender_ns + round(float(fields["sent_ms"]) * MS)
        arrival_ns = BASE_NS + receiver_ns + round(float(fields["received_ms"]) * MS)
        return TraceRow(
            arrival_ns, fields["direction"], int(fields["pn"]), ts_ns, fields["type"], fields
        )

    by_direction: dict[str, list[TraceRow]] = {}
    for fields in _read("quic_two_endpoints/packets.csv.gz"):
        if fields["received_ms"]:
            by_direction.setdefault(fields["direction"], []).append(of(fields))
    return _merge(map(_clamp, by_direction.values()))


def read_limecep(disorder: str = "micro_ooo") -> list[TraceRow]:
    """Read LimeCEP's stream `micro_ooo` or `micro_inorder`."""

    def of(fields: Fields) -> TraceRow:
        ts_ns = BASE_NS + int(fields["ts"]) * MS
        return TraceRow(ts_ns, "lime", int(fields["id"]), ts_ns, fields["type"], fields)

    return _clamp(map(of, _read(f"limecep/{disorder}.csv.gz")))


def read_soccer_tagging() -> list[TraceRow]:
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)

    def of(fields: Fields) -> TraceRow:
        ts_ns, source = BASE_NS + int(fields["event_ms"]) * MS, fields["source"]
        return TraceRow(ts_ns, source, next(numbers[source]), ts_ns, fields["event"], fields)

    return _clamp(map(of, _read("soccer_tagging/match_2058004.csv.gz")))


def _read(name: str) -> Iterator[Fields]:
    path = folder() / name
    if not path.is_file():
        raise TraceAbsent(path)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def _clamp(rows: Iterable[TraceRow]) -> list[TraceRow]:
    """Return `rows`, with each arrival raised to the one before it if it is smaller."""
    clamped: list[TraceRow] = []
    now_ns = 0
    for row in rows:
        now_ns = max(now_ns, row.arrival_ns)
        clamped.append(row if row.arrival_ns == now_ns else row._replace(arrival_ns=now_ns))
    return clamped


def _merge(lists: Iterable[list[TraceRow]]) -> list[TraceRow]:
    """Merge lists by (arrival, source), each list in its own order."""
    rows = [row for rows in lists for row in rows]
    return sorted(rows, key=lambda row: (row.arrival_ns, row.source))


TRACES: Final[dict[str, Callable[[], list[TraceRow]]]] = {
    "mesh_sensors/tdma_interference": lambda: read_mesh_sensors("tdma_interference"),
    "mesh_sensors/shared_high_load": lambda: read_mesh_sensors("shared_high_load"),
    "jr_umts/d1": lambda: read_jr_umts("d1"),
    "jr_umts/d2": lambda: read_jr_umts("d2"),
    "jr_umts/d4": lambda: read_jr_umts("d4"),
    "lorawan_gateways": read_lorawan_gateways,
    "balloon_clocks": read_balloon_clocks,
    "usgs_quakes": read_usgs_quakes,
    "kafka_brokers": read_kafka_brokers,
    "quic_two_endpoints": read_quic_two_endpoints,
}
"""The functions that read each trace, by name."""
