"""Examples: a mapping is proposed from records of many kinds, with its certainty.

Law: the proposal stays the same if records are slightly shuffled, duplicated or lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from recordings.guess import Guess, Proposal, fit, format_field, guess_fields
from recordings.time_guess import TimesSeen
from tests.seeds import seeds_of_today
from topology.records.values import Timestamp

NOW_S = 1_790_000_000
NOW_NS = NOW_S * 10**9
Rows = list[dict[str, Any]]


def telemetry(machines: int = 3, each: int = 40) -> Rows:
    """Return records from sources in turn, 250 ms apart.

    Each record also has a temperature in whole degrees and a total.
    """
    return [
        {
            "device": f"press-{machine}",
            "n": n,
            "time": (NOW_S * 1_000) - 100_000 + 250 * n + 7 * machine,
            "kind": "reading" if n % 5 else "status",
            "temperature": 20 + (n * 7 + machine) % 9,
            "row": n * machines + machine,
            "load": n / 8,
        }
        for n in range(each)
        for machine in range(machines)
    ]


def names(proposal: Proposal) -> dict[str, str]:
    kinds = ("source", "seq", "ts", "type", "epoch", "arrival")
    guesses = {kind: getattr(proposal, kind) for kind in kinds}
    return {kind: format_field(each.path, on_file=True) for kind, each in guesses.items() if each}


def times_of(proposal: Proposal) -> TimesSeen:
    assert proposal.times is not None
    return proposal.times


def of(guess: Guess | None) -> Guess:
    assert guess is not None
    return guess


def test_fields_are_found_by_values() -> None:
    proposal = guess_fields(telemetry(), NOW_NS)
    assert names(proposal) == {"source": "device", "seq": "n", "ts": "time", "type": "kind"}
    assert times_of(proposal).unit == "ms"
    assert {of(getattr(proposal, each)).sure for each in ("source", "seq", "ts")} == {"certain"}


def test_fields_need_no_telling_names() -> None:
    rows: Rows = [{"a": row["device"], "b": row["n"], "c": row["time"]} for row in telemetry()]
    proposal = guess_fields(rows, NOW_NS)
    assert names(proposal) == {"source": "a", "seq": "b", "ts": "c"}
    assert of(proposal.ts).sure == "likely"


@pytest.mark.parametrize(
    ("time_of", "unit", "without_zone"),
    [
        (lambda ms: ms // 1_000, "s", False),
        (lambda ms: ms / 1_000, "s", False),
        (lambda ms: Decimal(ms) / 1_000, "s", False),
        (lambda ms: ms, "ms", False),
        (str, "ms", False),
        (lambda ms: ms * 1_000, "us", False),
        (lambda ms: ms * 10**6, "ns", False),
        (lambda ms: Timestamp(ms * 10**6), None, False),
        (lambda ms: Timestamp(ms * 10**6, is_local=True), None, True),
        (lambda ms: f"2026-09-21T12:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02}Z", None, False),
        (lambda ms: f"2026-09-21 12:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02}", None, True),
    ],
)
def test_unit_of_time_is_found(
    time_of: Callable[[int], object], unit: str | None, without_zone: bool
) -> None:
    rows = telemetry()
    for row in rows:
        row["time"] = time_of(row["time"])
    proposal = guess_fields(rows, NOW_NS)
    assert names(proposal)["ts"] == "time"
    assert (times_of(proposal).unit, times_of(proposal).without_zone) == (unit, without_zone)


@pytest.mark.parametrize(
    ("written", "forms"),
    [
        ("%d.%m.%Y %H:%M:%S", ["%d.%m.%Y %H:%M:%S"]),
        ("%m/%d/%Y %I:%M:%S %p", ["%m/%d/%Y %I:%M:%S %p"]),
        ("%Y/%m/%d, %H:%M", ["%Y/%m/%d, %H:%M"]),
        ("%d-%b-%Y %H:%M:%S,%f", ["%d-%b-%Y %H:%M:%S,%f"]),
        ("%d.%m.%y %H:%M:%S %z", ["%d.%m.%y %H:%M:%S %z", "%y.%m.%d %H:%M:%S %z"]),
        ("%Y%m%d%H%M%S", ["%Y%m%d%H%M%S"]),
        ("%b %d %H:%M:%S", ["syslog"]),
        ("%a, %d %b %Y %H:%M:%S %z", ["rfc2822"]),
        ("[%d/%b/%Y:%H:%M:%S %z]", ["apache"]),
        ("%a %b %d %H:%M:%S %Y", ["%a %b %d %H:%M:%S %Y"]),
        ("%Y-%m-%dT%H:%M%z", []),
        ("%d.%m.2026", None),
    ],
)
def test_time_format_is_found(written: str, forms: list[str] | None) -> None:
    """Times span three weeks, so that the day can be recognised; a bare date is not a time."""
    rows = telemetry()
    for n, row in enumerate(rows):
        at = datetime(2026, 9, 1, 12, tzinfo=UTC) + timedelta(hours=4 * n)
        row["time"] = at.strftime(written)
    proposal = guess_fields(rows, NOW_NS)
    if forms is None:
        assert proposal.ts is None
        return
    assert [*times_of(proposal).forms] == forms
    assert times_of(proposal).without_zone == ("%z" not in written)


def test_order_of_day_is_not_guessed() -> None:
    rows = telemetry()
    for n, row in enumerate(rows):
        row["time"] = f"03/06/2026 06:{n % 60:02}:00"
    found = times_of(guess_fields(rows, NOW_NS))
    assert found.forms == ("%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S")
    rows[7]["time"] = "13/06/2026 06:00:00"
    assert times_of(guess_fields(rows, NOW_NS)).forms == ("%d/%m/%Y %H:%M:%S",)


def test_decimal_comma_is_found() -> None:
    rows = telemetry()
    for row in rows:
        ms: int = row["time"]
        row["time"] = f"{ms // 1_000},{ms % 1_000:03}"
    found = times_of(guess_fields(rows, NOW_NS))
    assert (found.unit, found.decimal) == ("s", ",")


def test_earliest_time_is_event_time() -> None:
    rows = telemetry()
    for row in rows:
        row.update(ingested_at=row["time"] + 900, sent_ts=row["time"] + 40)
    proposal = guess_fields(rows, NOW_NS)
    assert names(proposal)["ts"] == "time"
    assert names(proposal)["arrival"] == "ingested_at"
    assert of(proposal.ts).sure == "likely"
    assert of(proposal.ts).rivals == (("sent_ts",),)


def test_fast_clock_swaps_no_times() -> None:
    rows = telemetry(machines=5)
    for row in rows:
        row["Empfangen"] = row["time"] + 200
        row["Messzeit"] = row.pop("time") + 60_000 * (row["device"] == "press-2")
    assert names(guess_fields(rows, NOW_NS))["ts"] == "Messzeit"


def test_paths_are_spelled_for_topics() -> None:
    rows: Rows = [
        {
            "key": row["device"],
            "header": {"trace": "x"},
            "payload": {"data": {"n.o": row["n"]}, "time": row["time"]},
        }
        for row in telemetry()
    ]
    proposal = guess_fields(rows, NOW_NS)
    assert format_field(of(proposal.source).path) == "key"
    assert format_field(of(proposal.seq).path) == "payload.data.`n.o`"
    assert format_field(of(proposal.ts).path) == "payload.time"
    assert format_field(("n.o",), on_file=True) == "n.o"
    assert format_field(("data", "n"), on_file=True) == "payload.data.n"


@pytest.mark.parametrize("machines", [2, 3, 5, 10])
@pytest.mark.parametrize("name", ["n", "laps"])
def test_sources_can_lack_the_number(machines: int, name: str) -> None:
    rows = telemetry(machines)
    for row in rows:
        number = row.pop("n")
        if row["device"] != "press-0":
            row |= {name: number, "boot": 3}
    proposal = guess_fields(rows, NOW_NS)
    assert names(proposal) == {
        "source": "device", "seq": name, "ts": "time", "type": "kind", "epoch": "boot",
    }  # fmt: skip
    assert of(proposal.seq).sure == "certain"
    assert ("of the records that have it" in of(proposal.seq).why) == (machines < 10)


def test_rare_number_is_no_seq() -> None:
    rows = telemetry()
    for row in rows:
        number = row.pop("n")
        if row["kind"] == "status":
            row["n"] = number
    assert guess_fields(rows, NOW_NS).seq is None
    beside = [{**row, "probe": n} if row["device"] == "press-0" else row
              for n, row in enumerate(telemetry())]  # fmt: skip
    assert names(guess_fields(beside, NOW_NS)) == names(guess_fields(telemetry(), NOW_NS))


def test_equal_candidates_are_named() -> None:
    rows = [{**row, "device_name": f"Press {row['device']}"} for row in telemetry()]
    source = of(guess_fields(rows, NOW_NS).source)
    assert source.sure == "likely"
    assert {source.path, *source.rivals} == {("device",), ("device_name",)}


def test_number_across_sources_is_no_seq() -> None:
    rows = [{"device": row["device"], "id": row["row"], "t": row["time"]} for row in telemetry()]
    assert names(guess_fields(rows, NOW_NS)) == {"source": "device", "ts": "t"}


def test_single_source_can_lack_name() -> None:
    rows = [{"id": row["n"], "value": row["load"]} for row in telemetry(machines=1)]
    proposal = guess_fields(rows, NOW_NS)
    assert proposal.source is None
    assert proposal.ts is None
    assert of(proposal.seq).path == ("id",)
    assert of(proposal.seq).sure == "uncertain"


def test_name_reveals_small_timestamps() -> None:
    rows = [{"device": row["device"], "log_ms": row["row"]} for row in telemetry()]
    proposal = guess_fields(rows, NOW_NS)
    assert (of(proposal.ts).path, of(proposal.ts).sure) == (("log_ms",), "uncertain")
    assert times_of(proposal).unit == "ms"


def test_restarting_number_is_seq() -> None:
    sources: list[str | None] = ["a"] * 60
    numbers: list[int | None] = [*range(30), *range(30)]
    assert fit(sources, numbers) == 1.0
    rows = [{"device": "a", "boot": number // 30, "seq": number % 30} for number in range(120)]
    rows += [{"device": "b", "boot": 7, "seq": number} for number in range(120)]
    assert names(guess_fields(rows, NOW_NS)) == {"source": "device", "seq": "seq", "epoch": "boot"}


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"a": None},
        {"a": float("nan"), "b": float("inf"), "c": True},
        {"a": [1, 2], "b": {}, "c": b"\xff", "d": "\udc80", "e": 2**70, "f": "9" * 999},
        {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}},
        {f"f{number}": number for number in range(1_000)},
    ],
)
def test_odd_rows_give_no_seq(row: dict[str, object]) -> None:
    assert guess_fields([row] * 30, NOW_NS).seq is None


def test_no_rows_give_no_proposal() -> None:
    assert guess_fields([], NOW_NS) == Proposal()


@pytest.mark.parametrize("seed", seeds_of_today(20))
def test_law_disorder_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    rows = [row for row in telemetry(dice.randint(2, 12), 100) if dice.random() > 0.05 * (seed % 3)]
    rows += dice.sample(rows, len(rows) // 20)
    places = {id(row): index + dice.uniform(0, 12) for index, row in enumerate(rows)}
    rows.sort(key=lambda row: places[id(row)])
    proposal = guess_fields(rows, NOW_NS)
    assert names(proposal) == {"source": "device", "seq": "n", "ts": "time", "type": "kind"}
    assert times_of(proposal).unit == "ms"


def messages() -> Rows:
    times = [NOW_S * 1_000 - 7 * n * n for n in range(40)]
    sent = [{"dev": f"cam-{n % 3}", "guid": f"m{n}", "ms": ms} for n, ms in enumerate(times)]
    return [*sent, *sent[:10]]


def test_id_is_found_by_duplicates() -> None:
    proposal = guess_fields(messages(), NOW_NS)
    assert of(proposal.id).path == ("guid",)
    assert proposal.seq is None


def test_shared_name_is_no_id() -> None:
    rows = messages()
    rows[-1] = rows[-1] | {"ms": NOW_S * 1_000}
    assert guess_fields(rows, NOW_NS).id is None
    assert guess_fields(telemetry(), NOW_NS).id is None
