"""Where an audit finds source, number and time: what was given, the rest as a proposal from the
first records (`producers.recording.guess`), said in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from cli.mapping_options import MappingOptions, values_at, where_of
from cli.topology_file import Refused
from inorder.contract import TimeUnit
from producers.recording.guess import Guess, Proposal, guessed, spelled, unit_of
from topology.fields.mapping import Fields
from topology.fields.where import Where

TAKEN: Final = ("source", "seq", "ts")
SHOWN_FIELDS: Final = 12


@dataclass(frozen=True, slots=True)
class AuditMapping:
    """`fields` and `arrival` as a reader takes them; `spelled` by field as options spell it;
    `said`: what was taken, for people."""

    fields: Fields
    arrival: Where | None
    spelled: dict[str, str]
    said: list[str]


def audit_mapping(
    options: MappingOptions, rows: Sequence[Mapping[str, object]], now_ns: int, *, on_file: bool
) -> AuditMapping:
    """`rows`: decoded records, on a topic as `guess` wants them. Refused where a source is neither
    given nor found."""
    proposal = guessed(rows, now_ns)
    given: dict[str, str | None] = {
        "source": options.source, "seq": options.seq, "ts": options.ts, "type": options.type,
        "epoch": options.epoch,
    }  # fmt: skip
    said, taken = [], {name: text for name, text in given.items() if text}
    foreign = options.source is None
    for name in TAKEN:
        guess: Guess | None = getattr(proposal, name)
        # A number counts within a source: beside one that is given, it is taken if it is sure.
        if name in taken or guess is None:
            continue
        if name == "seq" and not foreign and guess.sure == "unsure":
            continue
        taken[name] = spelled(guess.path, on_file=on_file)
        said.append(_said(name, taken[name], guess, on_file=on_file))
    if "source" not in taken:
        raise Refused(f"--source is missing, and nothing looks like one{_fields(rows)}")
    if "ts" not in taken and on_file:
        raise Refused(f"--ts is missing, and nothing looks like a time{_fields(rows)}")
    places: dict[str, Any] = {
        name: where_of(name, text, on_file=on_file) for name, text in taken.items()
    }
    unit = options.ts_unit
    ts = places.get("ts")
    if unit is None and ts is not None:
        found = _unit(ts, rows, now_ns, on_file=on_file)
        unit = found or (proposal.ts_unit if options.ts is None else None)
    unit = unit or "ns"
    arrival = _arrival(options, proposal, rows, now_ns, unit, said) if on_file else None
    taken["ts_unit"] = unit
    if arrival is not None:
        taken["arrival"] = options.arrival or str(arrival.path[0])
    fields = Fields(**places, ts_unit=unit, ts_zone=options.ts_zone)
    values = [] if ts is None else values_at(ts, rows, on_file=on_file)
    of_unit = any(isinstance(value, int | float | Decimal) or _is_digits(value) for value in values)
    return AuditMapping(fields, arrival, taken, [_read_by(taken, of_unit=of_unit), *said])


def _is_digits(value: object) -> bool:
    return isinstance(value, str) and value.replace(".", "", 1).isdigit()


def _unit(
    where: Where, rows: Sequence[Mapping[str, object]], now_ns: int, *, on_file: bool
) -> TimeUnit | None:
    return unit_of(values_at(where, rows, on_file=on_file), now_ns)


def _arrival(
    options: MappingOptions,
    proposal: Proposal,
    rows: Sequence[Mapping[str, object]],
    now_ns: int,
    unit: TimeUnit,
    said: list[str],
) -> Where | None:
    """Given, or a column called one that has the unit of `ts`; `said` names one of another."""
    if options.arrival:
        return options.arrives()
    if proposal.arrival is None:
        return None
    column = spelled(proposal.arrival.path, on_file=True)
    where = where_of("arrival", column, on_file=True)
    found = _unit(where, rows, now_ns, on_file=True)
    if found in (None, unit):
        return where
    said.append(f"{column} looks like an arrival and was not taken: in {found}, times in {unit}")
    return None


def _said(name: str, text: str, guess: Guess, *, on_file: bool) -> str:
    rivals = ", ".join(spelled(path, on_file=on_file) for path in guess.rivals)
    others = f"; as well: {rivals}" if rivals else ""
    return f"--{name} {text} was taken ({guess.sure}: {guess.why}{others})"


def _read_by(taken: Mapping[str, str], *, of_unit: bool) -> str:
    """`of_unit`: times are numbers, which the unit makes times."""
    words = [f"{name} {text}" for name, text in taken.items() if name != "ts_unit"]
    if "ts" in taken and of_unit:
        words[words.index(f"ts {taken['ts']}")] += f" ({taken['ts_unit']})"
    return f"read by {', '.join(words)}"


def _fields(rows: Sequence[Mapping[str, object]]) -> str:
    names = list(rows[0])[:SHOWN_FIELDS] if rows else []
    return f"; its fields are {', '.join(names)}: name one" if names else ""
