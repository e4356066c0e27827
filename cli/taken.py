"""Finds the fields of events in foreign records: options state where they are, or they are guessed.

`inorder init` and `inorder audit` guess by the same evidence (`recordings.guess`) and say how
certain each guess is. If several fields fit about equally well, the best one is chosen and the
others are named.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from cli.mapping_options import FIELD_OPTIONS, MappingOptions, values_at, where_of
from cli.topology_file import Refused
from inorder.contract import PRESETS, TimeUnit
from recordings.guess import Guess, Proposal, format_field, guess_fields
from recordings.time_guess import TimesSeen, guess_times
from recordings.values import FileMapping
from topology.records.mapping import Fields
from topology.records.values import Decode, ValueFault
from topology.records.where import Where

SAMPLE: Final = 5_000
"""The maximum number of records from which a mapping is proposed."""

PROPOSED: Final = ("source", "seq", "ts", "type", "epoch", "id")
OWN_SHARE: Final = 0.9
"""The least share of rows in our own form that shows that it is meant."""

GIVEN: Final = "given"
SHOWN_FIELDS: Final = 12
WITHOUT_ZONE: Final = "UTC"
"""The time zone assumed for times without one; the assumption is reported."""

OWN: Final = frozenset(
    {"source", "seq", "ts", "arrival", "stream", "epoch", "type", "payload", "kind", "offset", "id"}
    | {"topic", "partition"}
)
"""Keys of a line in our own form."""

OWN_FIELDS: Final = {name: name for name in (*PROPOSED, "arrival")}
OWN_HEADERS: Final = [
    {name: getattr(names, name) for name in ("source", "seq", "ts", "type", "epoch")}
    for names in PRESETS.values()
]
ABSENT: Final = (None, "")
_INTEGER: Final = re.compile(r"-?[0-9]+")

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Taken:
    """A mapping of foreign records, with the certainty of each field.

    Attributes:
        ts_unit: Unit of the time, None if the times state it themselves.
        texts: The position of each field in a record, as options spell it.
        said: Certainty by field.
    """

    fields: Fields
    arrival: Where | None
    ts_unit: TimeUnit | None
    texts: dict[str, str]
    said: dict[str, str]

    def section(self) -> dict[str, Any]:
        """Return `fields` and its related keys for a stream of the topology file."""
        named = {name: getattr(self.fields, name) for name in FIELD_OPTIONS}
        named["arrival"] = self.arrival
        places = {name: str(where) for name, where in named.items() if where is not None}
        found: dict[str, Any] = {"fields": places}
        if self.fields.ts_format:
            found["ts_format"] = self.fields.ts_format
        if self.fields.decimal != ".":
            found["decimal"] = self.fields.decimal
        if self.ts_unit is not None:
            found["ts_unit"] = self.ts_unit
        return found | ({"ts_zone": self.fields.ts_zone} if self.fields.ts_zone else {})


def take(
    rows: Rows, options: MappingOptions, *, on_file: bool, otherwise: str | None = None
) -> Taken:
    """Return the mapping of decoded records.

    If `otherwise` is given, every field is guessed, and `otherwise` is the constant source if no
    source is found. If it is None, `Refused` is raised if no source is found.
    """
    now_ns = time.time_ns()
    texts = {name: text for name in FIELD_OPTIONS if (text := getattr(options, name))}
    said = dict.fromkeys(texts, GIVEN)
    proposal = _propose(rows, texts, now_ns, on_file=on_file)
    for name in PROPOSED:
        guess: Guess | None = getattr(proposal, name)
        # Sequence numbers count within a source. So if the source is given, a guess must be
        # certain.
        unsure = (
            name == "seq" and options.source and guess is not None and guess.sure == "uncertain"
        )
        if name not in said and guess is not None and not unsure:
            texts[name] = format_field(guess.path, on_file=on_file)
            said[name] = _describe_guess(guess, on_file=on_file)
    if "source" not in texts:
        if otherwise is None:
            raise Refused(f"--source is missing, and nothing looks like one{_names(rows)}")
        texts["source"] = f'="{otherwise}"'
        said["source"] = "uncertain: no field tells machines apart, so all records are of one"
    if "seq" not in texts:
        said["seq"] = "nothing rises by one within a source, so each is ordered by its time"
    elif "id" in texts:
        del texts["id"]
        said["id"] = "not used: numbers tell duplicates"
    if "ts" not in texts:
        if on_file:
            raise Refused(f"--ts is missing, and nothing looks like a time{_names(rows)}")
        said["ts"] = "likely: no field looks like a time, so the record's own is used"
    places: dict[str, Any] = {
        name: where_of(name, text, on_file=on_file) for name, text in texts.items()
    }
    at_ts = values_at(places["ts"], rows, on_file=on_file) if "ts" in places else []
    times = guess_times(at_ts, now_ns)
    if times is None and options.ts is None:
        times = proposal.times  # Made-up times have no other sign than their name.
    form = options.ts_format or _choose_form(times, texts.get("ts", ""))
    unit = None if form else options.ts_unit or (times.unit if times else None)
    arrival = _arrival(options, proposal, rows, now_ns, unit or "ns", said) if on_file else None
    if arrival is not None:
        texts["arrival"] = options.arrival or str(arrival.path[0])
    zone = options.ts_zone
    if otherwise is not None and times is not None and times.without_zone and not zone:
        zone, said["ts_zone"] = WITHOUT_ZONE, "uncertain: the times name no zone"
    sign = options.decimal or (times.decimal if times else ".")
    fields = Fields(**places, ts_unit=unit or "ns", ts_zone=zone, ts_format=form, decimal=sign)
    return Taken(fields, arrival, unit, texts, said)


def has_own_names(row: Mapping[str, object]) -> bool:
    """Return whether a row of a file has the names of a line in our own form."""
    return row.keys() <= OWN or row.keys() >= {"source", "ts"}


def _propose(rows: Rows, texts: Mapping[str, str], now_ns: int, *, on_file: bool) -> Proposal:
    """Return guesses of the fields that no option names; `texts` has the others.

    Rows in our own form need no guess.
    """
    if on_file:
        cells: Rows = [row for row in rows if "clock" not in row]
        found = _find_own(cells, OWN_FIELDS) if all(row.keys() <= OWN for row in cells) else {}
    else:
        cells = [cast(Mapping[str, object], row["header"]) for row in rows]
        found = next(filter(None, (_find_own(cells, names) for names in OWN_HEADERS)), {})
    own = {
        name: Guess((key,) if on_file else ("header", key), "certain", "inorder's own name")
        for name, key in found.items()
    }
    named = {name: format_field(guess.path, on_file=on_file) for name, guess in own.items()}
    if not own or any(texts.get(name, named[name]) != named[name] for name in own):
        return guess_fields(rows, now_ns)  # Or the options state another form.
    return Proposal(**own, times=None)


def _find_own(cells: Rows, names: Mapping[str, str]) -> dict[str, str]:
    """Return those of the names that rows have, if nearly all rows are of this form."""
    if not cells or sum(_is_own(cell, names) for cell in cells) < OWN_SHARE * len(cells):
        return {}
    return {
        name: key
        for name, key in names.items()
        if any(cell.get(key) not in ABSENT for cell in cells)
    }


def _is_own(cell: Mapping[str, object], names: Mapping[str, str]) -> bool:
    """Return whether a row has a source, and a number or a time, under these names.

    The source is a text or an integer, and the numbers are integers.
    """
    source, ts = cell.get(names["source"]), cell.get(names["ts"])
    numbers = [each for name in ("seq", "epoch") if (each := cell.get(names[name])) not in ABSENT]
    return (
        isinstance(source, str | int)
        and source not in ABSENT
        and (bool(numbers) or ts not in ABSENT)
        and all(_INTEGER.fullmatch(str(each)) for each in numbers)
    )


def _choose_form(times: TimesSeen | None, ts: str) -> str:
    """Return the form of the times, "" if none; raise `Refused` if several fit alike."""
    if times is None or not times.forms:
        return ""
    if len(times.forms) > 1:
        forms = " or ".join(f"--ts-format {shlex.quote(form)}" for form in times.forms)
        raise Refused(
            f"--ts {ts}: no time shows which number is the day and which the month; write {forms}"
        )
    return times.forms[0]


def describe_missing_time(values: FileMapping, path: str, *, by_option: bool) -> str:
    """Return a warning that all times of a mapped file are 0, as no field is named for them.

    It names a field of the first rows that looks like a time. Input that can be read only once is
    not examined.
    """
    found = Proposal()
    if Path(path).is_file():
        rows = islice(values.rows(path, needed=values.columns()), SAMPLE)
        found = guess_fields(filter(None, (row.decode() for row in rows)), time.time_ns())
    times = found.times
    unit = None if times is None else times.unit
    zone = WITHOUT_ZONE if times is not None and times.without_zone else ""
    form = times.forms[0] if times is not None and len(times.forms) == 1 else ""
    if by_option:
        name = "NAME" if found.ts is None else format_field(found.ts.path, on_file=True)
        remedy = f"--ts {shlex.quote(name)}"
        remedy += f" --ts-unit {unit}" if unit else f" --ts-zone {zone}" if zone else ""
        remedy += f" --ts-format {shlex.quote(form)}" if form else ""
    else:
        name = "payload.NAME" if found.ts is None else format_field(("payload", *found.ts.path))
        remedy = f"ts: {name} in `fields`"
        remedy += f", and ts_format: {form!r} beside it" if form else ""
        remedy += f", and ts_unit: {unit} beside it" if unit else ""
        remedy += f", and ts_zone: {zone} beside it" if zone else ""
    return f"no field is named for the time, so every time is 0 (1970): write {remedy}"


def _arrival(
    options: MappingOptions,
    proposal: Proposal,
    rows: Rows,
    now_ns: int,
    unit: TimeUnit,
    said: dict[str, str],
) -> Where | None:
    """Return where the arrival time is: as an option states, or a column whose name looks like one.

    A column whose unit differs from that of `ts` is not used. The result is then None, and `said`
    names the column.
    """
    if options.arrival or proposal.arrival is None:
        return options.arrives()
    column = format_field(proposal.arrival.path, on_file=True)
    where = where_of("arrival", column, on_file=True)
    times = guess_times(values_at(where, rows, on_file=True), now_ns)
    found = times and times.unit
    if found in (None, unit):
        return where
    said["arrival"] = (
        f"{column} looks like an arrival time, but is not used: in {found}, times in {unit}"
    )
    return None


def _describe_guess(guess: Guess, *, on_file: bool) -> str:
    rivals = ", ".join(format_field(path, on_file=on_file) for path in guess.rivals)
    return f"{guess.sure}: {guess.why}" + (f"; also possible: {rivals}" if rivals else "")


def _names(rows: Rows) -> str:
    names = ", ".join(list(rows[0])[:SHOWN_FIELDS]) if rows else ""
    return f"; its fields are {names}: name one" if names else ""


def sample_of(record: Any, decode: Decode) -> tuple[dict[str, object], ValueFault | None]:
    """Return the fields of a record for a proposal, and the reason if its value cannot be read."""
    headers = {name: (each or b"").decode("utf-8", "replace") for name, each in record.headers}
    found: dict[str, object] = {"header": headers}
    if record.key is not None:
        found["key"] = record.key.decode("utf-8", "replace")
    try:
        found["payload"] = decode(record.value)
    except ValueFault as fault:
        return found, fault
    return found, None
