"""`inorder explain` says why an event is buffered, and which source blocks the merge.

It asks a running worker and prints the answer in words; `--json` prints the answer unchanged. With
`--seq` it explains one event: where the event is, what it waits for, and why it is late
(agents.watch.location). Partitions without anything to report are counted. If clocks are uncertain,
the last lines name the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import click

from agents.watch import sentences
from agents.watch.deaths import join_counts
from agents.watch.location import ASK_ANOTHER, STANDBY
from cli.as_json import json_option
from cli.http_token import fetch
from cli.printable import escape_unprintable
from cli.topology_file import Refused, source_named
from topology.order.clock.cell import BROKEN, STALE, STATES, SUSPECT, SYNCED, UNSYNCED

TIMEOUT_S: Final = 5.0
PPB_PER_PPM: Final = 1_000
TROUBLE: Final = (STALE, SUSPECT, BROKEN)
REMEDIES: Final = {
    UNSYNCED: (
        "let the sources sync with `inorder sync-server`, or declare their offsets in the clock"
        " topic"
    ),
    STALE: "they have not synced for a while: check that a sync server answers them",
    SUSPECT: "their newest rounds contradict older ones: check the sync servers, use three",
    BROKEN: "their events refuted their clocks: let them sync again, or set the clocks right",
}


@click.command("explain")
@click.argument("worker", metavar="HOST:PORT")
@source_named()
@click.option("--seq", type=int, help="Sequence number of the event of --source.")
@click.option("--epoch", type=int, help="With --seq: epoch of the event (default: the newest).")
@click.option("--stream", help="With --seq: stream of the event (default: any).")
@json_option("EXPLAIN")
def command(
    worker: str,
    source: str | None,
    seq: int | None,
    epoch: int | None,
    stream: str | None,
    as_json: bool,
) -> None:
    """Print what the worker at HOST:PORT buffers, since when, and what it waits for.

    With --source and --seq, print where that event is.
    """
    # The address of the worker's page is accepted, too.
    worker = worker.removeprefix("http://").partition("/")[0]
    if seq is not None:
        if source is None:
            raise Refused("--seq alone does not name an event; write --source as well")
        given = {"source": source, "seq": seq, "epoch": epoch, "stream": stream}
        path = f"/event?{urlencode({n: word for n, word in given.items() if word is not None})}"
    elif epoch is not None or stream is not None:
        raise Refused(
            "--epoch and --stream need --seq, because they select an event; write --seq as well"
        )
    else:
        path = "/explain"
    answer = ask(worker, path)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    standbys = [] if answer else fetch_standby_stages(worker)
    for line in explain(answer, source, standbys) if seq is None else answer["said"]:
        click.echo(escape_unprintable(line))


def ask(worker: str, path: str) -> Any:
    try:
        status, text = fetch(worker, path, TIMEOUT_S)
        if status != HTTPStatus.OK:
            raise Refused(f"the worker at {worker} says: {escape_unprintable(text.strip())}")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise Refused(
            f"no worker answers at {worker}: {error}; a worker logs its address when it starts"
        ) from error


def fetch_standby_stages(worker: str) -> list[str]:
    """Return the stages of which the worker is a standby."""
    stages = ask(worker, "/health").get("stages", {})
    return [name for name, about in stages.items() if about.get(STANDBY)]


def explain(
    partitions: list[dict[str, Any]], source: str | None, standbys: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the answer in words, with a line for each buffered event or wait.

    `standbys` has the stages of which this worker is a standby, if it has no partition.
    """
    if standbys:
        yield from (f"stage {name}: {ASK_ANOTHER}" for name in standbys)
        return
    if source is None:
        yield from _describe_faults(partitions)
    empty = whole = 0
    for part in partitions:
        about = _describe_partition(part, source)
        lanes = part.get("lanes") or [part]
        whole += len(lanes)
        waits = part["held"] or any(at["next_offset"] != at["high_watermark"] for at in lanes)
        if not about and (source is not None or not waits):
            empty += len(lanes)
            continue
        yield from _describe_task(part, lanes)
        yield from about
    if empty or not partitions:
        yield _describe_rest(empty, whole, source)
    yield from _remedies(partitions)
    for why in sorted({part["cut"] for part in partitions if "cut" in part}):
        yield f"stages: {why}"


def _describe_task(part: dict[str, Any], lanes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line about a task, and about each of its input partitions if it has several."""
    name = f"{part['stage']} {part['topic']}/{part['partition']}"
    buffered = f"{part['held']} buffered"
    if len(lanes) == 1:
        yield f"{name}: {buffered}, {_place(lanes[0])}"
        return
    others = "another partition" if len(lanes) == 2 else f"{len(lanes) - 1} other partitions"
    yield f"{name} and {others}: {buffered}"
    for lane in lanes:
        yield f"  {lane['topic']}/{lane['partition']}: {_place(lane)}"


def _place(lane: dict[str, Any]) -> str:
    lag_ns = lane.get("lag_ns")
    behind = f", {lag_ns / 1e9:.1f} s behind" if lag_ns else ""
    return f"next offset {lane['next_offset']}, end {lane['high_watermark']}{behind}"


def _describe_faults(partitions: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines about stages whose records are mostly dead letters, with reason and remedy.

    Also yield lines about the parts of queries that match no event.
    """
    by_stage: dict[str, list[dict[str, Any]]] = {}
    for part in partitions:
        if "deaths" in part:
            by_stage.setdefault(part["stage"], []).append(part["deaths"])
    for stage, parts in by_stage.items():
        if (alarm := join_counts(parts).find_alarm()) is not None:
            yield f"{stage}: {alarm}"
    yield from dict.fromkeys(
        f"{part['stage']}: query {query}: {word}"
        for part in partitions
        for query, words in part.get("unmet", {}).items()
        for word in words
    )


def _describe_rest(empty: int, whole: int, source: str | None) -> str:
    if not whole:
        return "no partition is assigned to this worker"
    which = "all" if empty == whole else "the other"
    places = f"{which} {empty} partitions" if empty > 1 else "one partition"
    if source is not None:
        return f"no event of {source} waits in {places}"
    return f"{places} {'are' if empty > 1 else 'is'} caught up"


def _remedies(partitions: list[dict[str, Any]]) -> Iterator[str]:
    """Yield remedies for clocks that are uncertain, once for all partitions.

    Clocks without sync are left out if the stream trusts them.
    """
    operators = [each for part in partitions for each in part["streams"].values()]
    clocks = [each["clock"] for each in operators if "clock" in each]
    for state, remedy in REMEDIES.items():
        asked = [c for c in clocks if state != UNSYNCED or c.get("policy") != "trust"]
        if count := sum(clock.get(state, 0) for clock in asked):
            yield f"{count} {state}: {remedy}" + (
                _advise_on_trust(asked) if state == UNSYNCED else ""
            )


def _advise_on_trust(clocks: list[dict[str, Any]]) -> str:
    """Return whether clocks that do not sync may be trusted, which corrected events disprove."""
    if moved := sum(clock.get("corrected_by_arrival", 0) for clock in clocks):
        return f"; some of these clocks are wrong: {moved:,} events were corrected by arrivals"
    return "; where their clocks are right anyway, write clock: {unsynced: trust}"


def _describe_partition(part: dict[str, Any], source: str | None) -> list[str]:
    """Return the lines about a partition, which follow its name."""
    lines: list[str] = []
    for stream, operators in part["streams"].items():
        if "reorder" in operators:
            lines += _describe_reorder(stream, operators["reorder"], part["now"], source)
        if "clock" in operators:
            lines += _describe_clocks(stream, operators["clock"], source)
        if "merge" in operators:
            lines += _merge(stream, operators["merge"], source)
    alignment = part["alignment"]
    if (lines or source is None) and alignment is not None and alignment["waiting_for"]:
        inputs = ", ".join(alignment["waiting_for"])
        lines.insert(0, f"  waits for progress of {inputs}")
    return lines


def _describe_reorder(
    stream: str, reorder: dict[str, Any], now_ns: int, source: str | None
) -> Iterator[str]:
    for entry in reorder["waiting"]:
        if source in (None, entry["source"]):
            yield (
                f"  {stream}/{entry['source']} epoch {entry['epoch']}: {entry['held']} buffered"
                f" {sentences.why_held(entry)},"
                f" for {sentences.format_duration(now_ns - entry['since'])},"
                f" at most {sentences.format_duration(entry['deadline'] - now_ns)} more"
            )


def _describe_clocks(stream: str, clock: dict[str, Any], source: str | None) -> Iterator[str]:
    """Yield the number of clocks in each state, and the names of clocks in trouble or requested."""
    if not clock["sources"] or (source is None and clock["sources"] == clock[SYNCED]):
        return
    named = [
        f"    {each['source']}: {_describe_clock(each)}"
        for each in clock["clocks"]
        if each["source"] == source or (source is None and each["state"] in TROUBLE)
    ]
    if source is None or named:
        counts = [f"{clock[state]} {state}" for state in STATES if clock[state]]
        yield f"  {stream}: clocks of {clock['sources']} sources: {', '.join(counts)}"
        yield from named


def _describe_clock(clock: dict[str, Any]) -> str:
    said = f"{clock['state']}, {sentences.format_correction(clock)}"
    if clock["skew_ppb"] is not None:
        said += f", runs {-clock['skew_ppb'] / PPB_PER_PPM:+.1f} ppm off"
    return f"{said}, segment {clock['segment']}"


def _merge(stream: str, merge: dict[str, Any], source: str | None) -> Iterator[str]:
    apart = [name for name in merge.get("wandering", ()) if source in (None, name)]
    yield from (f"  {line}" for line in sentences.describe_scattered(stream, apart))
    yield from (f"  {line}" for line in sentences.describe_set_back(stream, merge, source))
    causes = merge.get("late_by_cause", {})
    if causes and source is None:
        late = ", ".join(f"{cause} {count}" for cause, count in causes.items())
        yield f"  {stream}: late at the merge: {late}"
    if (head := merge["head"]) is not None:
        first = f"the first from {head['source']} (ref_time {head['ref_time']})"
        yield f"  {stream}: {merge['queued']} wait for the merge, {first}"
        for feed in merge["waits_for"]:
            if source in (None, feed["source"]):
                yield f"    held back by {feed['source']}: {sentences.why_awaited(feed)}"
