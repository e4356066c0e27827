"""`inorder explain`: why is this event held, which source blocks the merge?

Asks a running worker and says it in words; `--json` gives what the worker answered. With `--seq` it
explains one event: where it is, what it waits for, why it is late (agents.watch.location).
Partitions of which there is nothing to say are counted. Where clocks are unsure, the last lines say
what to do.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

import click

from agents.watch.deaths import joined
from agents.watch.port.token import bearing
from agents.watch.sentences import (
    duration,
    reference_time,
    scattered,
    why_awaited,
    why_held,
)
from cli.as_json import json_option
from cli.http_token import http_token
from cli.printable import printable
from cli.topology_file import Refused, source_named
from topology.clock.cell import BROKEN, STALE, STATES, SUSPECT, SYNCED, UNSYNCED

TIMEOUT_S: Final = 5.0
PPB_PER_PPM: Final = 1_000
TROUBLE: Final = (STALE, SUSPECT, BROKEN)
REMEDIES: Final = {
    UNSYNCED: (
        "let the sources sync with `inorder sync-server`, or declare their offsets in the clock"
        " topic; where their clocks are right anyway, write clock: {unsynced: trust}"
    ),
    STALE: "they have not synced for a while: look whether a sync server answers them",
    SUSPECT: "their newest rounds contradict the older: look at the servers, three settle it",
    BROKEN: "their events refuted their clocks: let them sync again, or set the clocks right",
}


@click.command("explain")
@click.argument("worker", metavar="HOST:PORT")
@source_named()
@click.option("--seq", type=int, help="The event of --source that bears this number.")
@click.option("--epoch", type=int, help="With --seq: of this epoch (default: the newest).")
@click.option("--stream", help="With --seq: of this stream (default: any).")
@json_option("EXPLAIN")
def command(
    worker: str,
    source: str | None,
    seq: int | None,
    epoch: int | None,
    stream: str | None,
    as_json: bool,
) -> None:
    """Say what the worker at HOST:PORT holds, since when, and what it waits for; with --source and
    --seq, where that event is."""
    worker = worker.removeprefix("http://").partition("/")[0]  # its page's address will do
    if seq is not None:
        _tell_event(worker, source, seq, epoch, stream, as_json)
        return
    if epoch is not None or stream is not None:
        raise Refused("--epoch and --stream go with --seq: they narrow down which event is meant")
    answer: list[dict[str, Any]] = asked(worker, "/explain")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for line in explained(answer, source):
        click.echo(printable(line))


def _tell_event(
    worker: str,
    source: str | None,
    seq: int,
    epoch: int | None,
    stream: str | None,
    as_json: bool,
) -> None:
    if source is None:
        raise Refused("--seq alone names no event; write --source beside it")
    given = {"source": source, "seq": str(seq), "epoch": epoch, "stream": stream}
    query = urllib.parse.urlencode({n: word for n, word in given.items() if word is not None})
    answer: dict[str, Any] = asked(worker, f"/event?{query}")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for line in answer["said"]:
        click.echo(printable(line))


def asked(worker: str, path: str) -> Any:
    request = urllib.request.Request(f"http://{worker}{path}", headers=bearing(http_token()))
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(
                f"the worker at {worker} says: {printable(error.read().decode().strip())}"
            ) from error
    except (OSError, ValueError) as error:
        raise Refused(
            f"no worker answers at {worker}: {error}; it names its address when it starts"
        ) from error


def explained(partitions: list[dict[str, Any]], source: str | None) -> list[str]:
    """The answer in words, a line for each thing that waits."""
    lines: list[str] = []
    empty = 0
    for part in partitions:
        about = _partition(part, source)
        place = f"{part['stage']} {part['topic']}/{part['partition']}"
        waits = part["held"] or part["next_offset"] != part["high_watermark"]
        if not about and (source is not None or not waits):
            empty += 1
            continue
        lines.append(
            f"{place}: {part['held']} held, next offset {part['next_offset']},"
            f" end {part['high_watermark']}{_lag(part.get('lag_ns'))}"
        )
        lines += about
    lines = _amiss(partitions) + lines if source is None else lines
    return lines + _rest(empty, len(partitions), source) + _remedies(partitions) + _cut(partitions)


def _lag(lag_ns: int | None) -> str:
    return f", {lag_ns / 1e9:.1f} s behind" if lag_ns else ""


def _amiss(partitions: list[dict[str, Any]]) -> list[str]:
    """Where most of what a stage reads is dead: why, and what to do. What queries ask for that no
    event has."""
    by_stage: dict[str, list[dict[str, Any]]] = {}
    for part in partitions:
        if "deaths" in part:
            by_stage.setdefault(part["stage"], []).append(part["deaths"])
    alarms = {stage: joined(parts).alarm() for stage, parts in by_stage.items()}
    unmet = dict.fromkeys(
        (part["stage"], query, word)
        for part in partitions
        for query, words in part.get("unmet", {}).items()
        for word in words
    )
    return [
        *(f"{stage}: {alarm}" for stage, alarm in alarms.items() if alarm is not None),
        *(f"{stage}: query {query}: {word}" for stage, query, word in unmet),
    ]


def _cut(partitions: list[dict[str, Any]]) -> list[str]:
    """Which stages there are, and why these."""
    return [
        f"stages: {why}" for why in sorted({part["cut"] for part in partitions if "cut" in part})
    ]


def _rest(empty: int, whole: int, source: str | None) -> list[str]:
    if not whole:
        return ["no partition is assigned to this worker"]
    if not empty:
        return []
    others = "all of" if empty == whole else "the other"
    said = "nothing is held, and all is read" if source is None else f"nothing of {source} waits"
    return [f"in {others} {empty} partitions {said}"] if empty > 1 else [f"in one partition {said}"]


def _remedies(partitions: list[dict[str, Any]]) -> list[str]:
    """What to do about clocks that are unsure, once for all partitions; nothing where a stream
    trusts those that have not synced."""
    counts = dict.fromkeys(REMEDIES, 0)
    for part in partitions:
        for operators in part["streams"].values():
            clock = operators.get("clock", {})
            for state in counts:
                if state != UNSYNCED or clock.get("policy") != "trust":
                    counts[state] += clock.get(state, 0)
    return [f"{count} {state}: {REMEDIES[state]}" for state, count in counts.items() if count]


def _partition(part: dict[str, Any], source: str | None) -> list[str]:
    """What there is to say about one, below its name."""
    lines: list[str] = []
    for stream, operators in part["streams"].items():
        lines += _reorder(stream, operators.get("reorder"), part["now"], source)
        lines += _clocks(stream, operators.get("clock"), source)
        lines += _merge(stream, operators.get("merge"), source)
    if source is not None and not lines:
        return []
    alignment = part["alignment"]
    if alignment is not None and alignment["waiting_for"]:
        inputs = ", ".join(alignment["waiting_for"])
        lines.insert(0, f"  waits for progress of {inputs}")
    return lines


def _reorder(
    stream: str, reorder: dict[str, Any] | None, now_ns: int, source: str | None
) -> list[str]:
    if reorder is None:
        return []
    return [
        f"  {stream}/{entry['source']} epoch {entry['epoch']}: {entry['held']} held"
        f" {why_held(entry)}, for {duration(now_ns - entry['since'])},"
        f" at most {duration(entry['deadline'] - now_ns)} more"
        for entry in reorder["waiting"]
        if source in (None, entry["source"])
    ]


def _clocks(stream: str, clock: dict[str, Any] | None, source: str | None) -> list[str]:
    """How many clocks are how sure; those in trouble, or the one asked for, by name."""
    if clock is None or not clock["sources"]:
        return []
    if source is None and clock["sources"] == clock[SYNCED]:
        return []
    named = [
        f"    {each['source']}: {_said_of(each)}"
        for each in clock["clocks"]
        if each["source"] == source or (source is None and each["state"] in TROUBLE)
    ]
    if source is not None and not named:
        return []
    counts = [f"{clock[state]} {state}" for state in STATES if clock[state]]
    return [f"  {stream}: clocks of {clock['sources']} sources: {', '.join(counts)}", *named]


def _said_of(clock: dict[str, Any]) -> str:
    said = f"{clock['state']}, {reference_time(clock)}"
    if clock["skew_ppb"] is not None:
        said += f", runs {-clock['skew_ppb'] / PPB_PER_PPM:+.1f} ppm off"
    return f"{said}, segment {clock['segment']}"


def _merge(stream: str, merge: dict[str, Any] | None, source: str | None) -> list[str]:
    if merge is None:
        return []
    apart = [name for name in merge.get("wandering", ()) if source in (None, name)]
    causes = merge.get("late_by_cause", {})
    late = ", ".join(f"{cause} {count}" for cause, count in causes.items())
    late_line = [f"  {stream}: late at the merge: {late}"] if late and source is None else []
    apart_line = [f"  {line}" for line in scattered(stream, apart)]
    return apart_line + late_line + _merge_head(stream, merge, source)


def _merge_head(stream: str, merge: dict[str, Any], source: str | None) -> list[str]:
    if merge["head"] is None:
        return []
    head = merge["head"]
    first = f"the first from {head['source']} (ref_time {head['ref_time']})"
    lines = [f"  {stream}: {merge['queued']} wait for the merge, {first}"]
    lines += [
        f"    held back by {feed['source']}: {why_awaited(feed)}"
        for feed in merge["waits_for"]
        if source in (None, feed["source"])
    ]
    return lines
