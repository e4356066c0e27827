"""Guess which fields of foreign records are source, number and time.

A row is a decoded record: only the value of a row in a file, or `{"key": …, "payload": …, "header":
{…}}` on a topic. A path of names is therefore written as in a mapping (`format_field`). The values
of a field count more than its name:

* `seq`: an integer that rises by one within each source. `fit` is the smaller of two shares: of
  distinct values, and of the numbers that are there between the smallest and the largest.
* `source`: a text or an integer that repeats. It is preferably a field within whose values a number
  rises by one although it does not do so over all records. Otherwise it is a field with the name of
  a source; none if there is neither.
* `ts`: a time near enough to now (`recordings.time_guess`). Among several, a name of a time that is
  not an arrival counts first, then the earlier time. If there is none, a number with the name of a
  time is taken, and the guess is unsure.
* `type`, `epoch`, `arrival`: by name only, if the values are possible.

Bounds: the first `MAX_ROWS` rows, `MAX_FIELDS` fields, `MAX_PAIRS` pairs of source and number. The
cost is some passes over that table, which take less than a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Final, Literal, NamedTuple

from inorder.contract import MAX_INT64, MAX_SOURCE_BYTES, UNIT_NS, TimeUnit
from recordings.time_guess import LOOKED_AT, UNITS, TimesSeen, guess_times, to_decimal
from topology.base.paths import format_path
from topology.records.values import Timestamp

MAX_ROWS: Final = 5_000
MAX_FIELDS: Final = 200
MAX_DEPTH: Final = 6
MAX_PAIRS: Final = 150
MAX_TYPES: Final = 200
MAX_RIVALS: Final = 3
Path = tuple[str, ...]
Sureness = Literal["certain", "likely", "uncertain"]

ON_NEARLY_ALL: Final = 0.9
SURE_FIT: Final = 0.9
LEAST_FIT: Final = 0.6
LEAST_RISING: Final = 0.4
ALIKE: Final = 0.15
"""The difference of two scores below which they count as equal."""

SOURCE_WORDS: Final = (
    "source", "device", "machine", "sensor", "host", "node", "station", "vehicle", "asset",
    "serial", "equipment", "meter", "gateway", "robot", "producer", "client", "instance", "imei",
    "plc", "tag",
)  # fmt: skip
SEQ_WORDS: Final = (
    "seq", "sequence", "n", "nr", "no", "num", "number", "counter", "count", "index", "idx",
    "packet", "frame", "msgid",
)  # fmt: skip
TS_WORDS: Final = (
    "ts", "time", "timestamp", "datetime", "date", "at", "when", "occurred", "measured", "t", "utc",
    "ms", "us", "ns",
)  # fmt: skip
ARRIVAL_WORDS: Final = (
    "arrival", "arrived", "received", "recv", "ingest", "ingested", "ingestion", "processed",
    "inserted", "stored", "written", "updated", "modified", "logged", "archived", "archive", "last",
)  # fmt: skip
TYPE_WORDS: Final = ("type", "kind", "event", "category")
ID_WORDS: Final = ("id", "uuid", "guid", "msgid", "message", "ulid")
EPOCH_WORDS: Final = ("epoch", "boot", "boots", "session", "incarnation", "restarts", "reboots")
NOT_A_NAME: Final = (*TYPE_WORDS, "state", "status", "model", "version", "unit", "level")
"""Words in the names of fields that do not name a source, such as `machine_type`."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_DECIMALS: Final = re.compile(r"-?[0-9]+\.[0-9]+")


class Guess(NamedTuple):
    """A guess of the field that has a given meaning, such as the source.

    Attributes:
        path: The path of the field.
        sure: How certain the guess is.
        why: The evidence, as half a sentence.
        rivals: Other fields that fit equally well.
    """

    path: Path
    sure: Sureness
    why: str
    rivals: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """The guesses for a recording; a guess is None if no field fits.

    Attributes:
        times: The times of `ts`, and how they are written.
    """

    source: Guess | None = None
    seq: Guess | None = None
    ts: Guess | None = None
    type: Guess | None = None
    epoch: Guess | None = None
    arrival: Guess | None = None
    id: Guess | None = None
    times: TimesSeen | None = None


def format_field(path: Path, *, on_file: bool = False) -> str:
    """Return the path in the form in which a mapping names it.

    In a file a single name is a column, and is returned unchanged.
    """
    if on_file and len(path) == 1:
        return path[0]
    return format_path(("payload", *path) if on_file else path)


def guess_fields(rows: Iterable[Mapping[str, object]], now_ns: int) -> Proposal:
    """Guess the fields of the rows.

    Args:
        rows: The decoded records.
        now_ns: The current time. Values count as times from the year 2000 to a year
            after it.
    """
    fields = _fields(islice(rows, MAX_ROWS))
    times = [each for each in (_read_times(one, now_ns) for one in fields) if each]
    of_times = {each.field.path for each in times}
    may_count = [one for one in fields if one.may_count and one.path not in of_times]
    numbers = [one for one in may_count if one.is_number]
    names = [one for one in fields if one.is_name and one.path not in of_times]
    source, seq = _guess_source_and_seq(names, numbers)
    groups = _find_field(fields, source)
    if groups is not None and seq is None:  # Some sources may have no numbers.
        _, seq = _guess_source_and_seq([groups], numbers := may_count)
    ts, arrival = _guess_ts_and_arrival(times, groups)
    made_up = (
        _guess_synthetic_times([one for one in fields if not _is_guessed(one, seq)])
        if ts is None
        else None
    )
    if made_up is not None:
        times = [made_up]
        ts = Guess(made_up.field.path, "uncertain", "by its name; not near now in any unit")
    used = {each.path for each in (source, seq, ts, arrival) if each}
    chosen = next((each for each in times if ts and each.field.path == ts.path), None)
    return Proposal(
        source,
        seq,
        ts,
        _guess_by_name([one for one in names if one.is_type and one.path not in used], TYPE_WORDS),
        _guess_by_name(
            [one for one in numbers if one.is_repeating and one.path not in used], EPOCH_WORDS
        )
        if seq
        else None,
        arrival,
        _guess_id([one for one in names if one.path not in used], fields, arrival)
        if not seq
        else None,
        chosen.seen if chosen else None,
    )


# -- the table -------------------------------------------------------------------------------------


@dataclass
class _Field:
    """A field with its values in all rows; the value is None where the field is absent."""

    path: Path
    values: list[object] = field(default_factory=list)

    @cached_property
    def there(self) -> list[object]:
        return [value for value in self.values if value is not None]

    @cached_property
    def numbers(self) -> list[int | None]:
        return [_to_number(value) for value in self.values]

    @cached_property
    def texts(self) -> list[str | None]:
        return [_name(value) for value in self.values]

    @cached_property
    def distinct(self) -> int:
        return len(set(self.texts) - {None})

    @cached_property
    def words(self) -> list[str]:
        return [word.lower() for word in _WORD.findall(self.path[-1])]

    def is_named(self, words: tuple[str, ...]) -> bool:
        return any(word in words for word in self.words)

    @property
    def is_number(self) -> bool:
        return _share_present(self.numbers) >= ON_NEARLY_ALL

    @property
    def may_count(self) -> bool:
        """Whether the field may have sequence numbers, even if most records lack it."""
        other = self.is_named((*TS_WORDS, *ARRIVAL_WORDS)) and not self.is_named(SEQ_WORDS)
        return not other and _share_present([*map(_to_number, self.there)]) >= ON_NEARLY_ALL

    @property
    def is_name(self) -> bool:
        """Whether the values may be names; numbers with decimals (as texts in CSV) are not."""
        decimals = any(_DECIMALS.fullmatch(text) for text in self.texts[:LOOKED_AT] if text)
        return _share_present(self.texts) >= ON_NEARLY_ALL and not decimals

    @property
    def is_type(self) -> bool:
        return self.distinct <= MAX_TYPES and all(isinstance(value, str) for value in self.there)

    @property
    def may_be_source(self) -> bool:
        """Whether the field may be a source without further evidence.

        Its name must be that of a source, or it must have several texts that are not numbers.
        """
        texts = self.distinct > 1 and isinstance(self.there[0], str)
        return self.is_named(SOURCE_WORDS) or (
            texts and not self.is_number and not self.is_named(NOT_A_NAME)
        )

    @property
    def is_repeating(self) -> bool:
        return 2 * self.distinct <= len(self.there)


def _fields(rows: Iterable[Mapping[str, object]]) -> list[_Field]:
    found: dict[Path, _Field] = {}
    count = 0
    for row in rows:
        for path, value in _iter_leaves(row, ()):
            if path not in found:
                if len(found) >= MAX_FIELDS:
                    continue
                found[path] = _Field(path)
            values = found[path].values
            values.extend([None] * (count - len(values)))
            if len(values) == count:
                values.append(value)
        count += 1
    for one in found.values():
        one.values.extend([None] * (count - len(one.values)))
    return list(found.values())


def _iter_leaves(row: Mapping[str, object], above: Path) -> Iterator[tuple[Path, object]]:
    for name, value in row.items():
        path = (*above, str(name))
        if isinstance(value, Mapping):
            if len(path) < MAX_DEPTH:
                yield from _iter_leaves(value, path)
        elif isinstance(value, Timestamp) or not isinstance(value, list | tuple):
            yield path, value


def _to_number(value: object) -> int | None:
    if type(value) is int:
        return value if 0 <= value <= MAX_INT64 else None
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return None


def _name(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if type(value) is int:
        return str(value)
    if (
        isinstance(value, str)
        and value
        and len(value.encode("utf-8", "replace")) <= MAX_SOURCE_BYTES
    ):
        return value
    return None


def _share_present(values: list[int | None] | list[str | None]) -> float:
    return sum(value is not None for value in values) / len(values) if values else 0.0


def _is_guessed(one: _Field, guess: Guess | None) -> bool:
    return guess is not None and one.path == guess.path


def _find_field(fields: list[_Field], guess: Guess | None) -> _Field | None:
    return next((one for one in fields if _is_guessed(one, guess)), None)


def _guess_id(names: list[_Field], fields: list[_Field], arrival: Guess | None) -> Guess | None:
    """Return a field that is named like an id, if rows that share a value are equal otherwise."""
    rows = [*zip(*(one.values for one in fields if not _is_guessed(one, arrival)), strict=True)]
    for one in names:
        if one.is_named(ID_WORDS) and not one.is_repeating:
            first: dict[object, object] = {}
            pairs = zip(one.texts, rows, strict=True)
            if all(first.setdefault(text, row) == row for text, row in pairs if text is not None):
                return Guess(one.path, "likely", "different in each record, but in equal ones")
    return None


# -- source and number -----------------------------------------------------------------------------


def _guess_source_and_seq(
    names: list[_Field], numbers: list[_Field]
) -> tuple[Guess | None, Guess | None]:
    numbers = sorted(numbers, key=lambda one: one.is_named(SEQ_WORDS), reverse=True)
    candidates = [one for one in names if one.is_repeating or one.is_named(SOURCE_WORDS)]
    candidates.sort(key=_source_score, reverse=True)
    pairs = ((source, seq) for source in candidates for seq in numbers if source is not seq)
    over_all = {one.path: _score_without_source(one) for one in numbers}
    fits: dict[Path, tuple[float, _Field]] = {}
    scores = {one.path: _source_score(one) for one in candidates}
    telling: set[Path] = set()
    for source, seq in islice(pairs, MAX_PAIRS):
        amount = fit(source.texts, seq.numbers)
        score = amount + 1.5 * ALIKE * seq.is_named(SEQ_WORDS)
        if amount >= LEAST_FIT and score > fits.get(source.path, (0.0, seq))[0]:
            fits[source.path] = (score, seq)
            if amount > over_all[seq.path] + ALIKE:
                telling.add(source.path)
    for path in telling:
        scores[path] += min(1.0, fits[path][0])
    candidates = [one for one in candidates if one.path in telling or one.may_be_source]
    if not candidates:
        return None, _guess_seq_alone(numbers, over_all)
    candidates.sort(key=lambda one: scores[one.path], reverse=True)
    best = candidates[0]
    rivals = _find_rivals(best, candidates, scores)
    named = best.is_named(SOURCE_WORDS)
    known = best.path in telling and (named or isinstance(best.there[0], str))
    known = known or (named and best.distinct > 1)
    sure: Sureness = "certain" if known and not rivals else "likely" if named else "uncertain"
    values = "value" if best.distinct == 1 else "values"
    why = f"{best.distinct:,} {values} in {len(best.there):,} records"
    found = Guess(best.path, sure, why, rivals)
    return found, _seq(best, fits[best.path][1], numbers) if best.path in fits else None


def _score_without_source(seq: _Field) -> float:
    return fit([""] * len(seq.values), seq.numbers)


def _guess_seq_alone(numbers: list[_Field], over_all: dict[Path, float]) -> Guess | None:
    """Return the guess of the field with the number, for records of a single source."""
    best = max(numbers, key=lambda one: over_all[one.path], default=None)
    if best is None or over_all[best.path] < LEAST_FIT:
        return None
    rivals = _find_rivals(best, numbers, over_all)
    return Guess(
        best.path, "uncertain", f"rises by one in {100 * over_all[best.path]:.0f} %", rivals
    )


def _seq(source: _Field, best: _Field, numbers: list[_Field]) -> Guess:
    fits = {one.path: fit(source.texts, one.numbers) for one in numbers if one is not source}
    named = best.is_named(SEQ_WORDS)
    alike = [
        one
        for one in numbers
        if one.path in fits and (one is best or not named or one.is_named(SEQ_WORDS))
    ]
    rivals = _find_rivals(best, alike, fits)
    share = fits[best.path]
    sure: Sureness = "likely" if share < SURE_FIT or rivals else "certain"
    if share < (LEAST_FIT + SURE_FIT) / 2 and not named:
        sure = "uncertain"
    records = "the records" if best.is_number else "the records that have it"
    return Guess(
        best.path, sure, f"rises by one per source in {100 * share:.0f} % of {records}", rivals
    )


def _source_score(one: _Field) -> float:
    """Return how likely a field is to name the source, judged without numbers."""
    named = one.is_named(SOURCE_WORDS) and one.words[-1] not in NOT_A_NAME
    wrong = one.is_named((*NOT_A_NAME, *SEQ_WORDS)) and not named
    several = one.distinct > 1
    as_text = isinstance(one.there[0], str) if one.there else False
    is_key = one.path == ("key",)
    return 0.6 * named - 0.4 * wrong + 0.3 * several + 0.15 * (as_text or is_key)


def fit(sources: list[str | None], numbers: list[int | None]) -> float:
    """Return how well the numbers rise by one within each source, from 0 to 1.

    Each run of a source has the smaller of two ratios: distinct values to records, and distinct
    values to the width of their range. A restart near 0 begins a new run. Runs are weighted by
    their records.

    The result is 0 if too few of the steps within a run rise (LEAST_RISING), or if every run has
    one record. It is also 0 if sources number only some of their records.
    """
    runs: dict[str, list[list[int]]] = {}
    for source, number in zip(sources, numbers, strict=True):
        if source is None or number is None:
            continue
        of_source = runs.setdefault(source, [[]])
        last = of_source[-1]
        if number <= 1 and len(last) > 8 and number < last[-1] - 4:
            of_source.append([number])
        else:
            last.append(number)
    weight = good = steps = rising = 0.0
    for run in (run for of_source in runs.values() for run in of_source if run):
        weight += len(run)
        if len(run) < 2:
            continue
        steps += len(run) - 1
        rising += sum(after > before for before, after in pairwise(run))
        distinct, width = len(set(run)), max(run) - min(run) + 1
        good += len(run) * min(distinct / len(run), distinct / width)
    is_whole = weight >= ON_NEARLY_ALL * sum(source in runs for source in sources)
    return good / weight if steps and is_whole and rising >= LEAST_RISING * steps else 0.0


def _find_rivals(best: _Field, fields: list[_Field], scores: dict[Path, float]) -> tuple[Path, ...]:
    near = [
        one.path
        for one in fields
        if one is not best and scores[one.path] > scores[best.path] - ALIKE
    ]
    return tuple(near[:MAX_RIVALS])


# -- times, and fields by name ---------------------------------------------------------------------


class _Times(NamedTuple):
    """The values of a field as times."""

    field: _Field
    seen: TimesSeen

    @property
    def ns(self) -> list[int | None]:
        return self.seen.ns


def _read_times(one: _Field, now_ns: int) -> _Times | None:
    seen = guess_times(one.values, now_ns)
    return None if seen is None else _Times(one, seen)


def _guess_synthetic_times(fields: list[_Field]) -> _Times | None:
    """Return the values of a field that rises over the records and has the name of a time, or None.

    The unit is that in the field's name, or seconds.
    """
    named = [one for one in fields if one.is_named(TS_WORDS)]
    for one in sorted(named, key=lambda one: one.is_named(ARRIVAL_WORDS)):
        unit: TimeUnit = next((unit for unit in UNITS if unit in one.words[1:]), "s")
        amounts = map(to_decimal, one.values)
        ns = [None if each is None else int(each * UNIT_NS[unit]) for each in amounts]
        there = [each for each in ns if each is not None]
        enough = len(there) >= ON_NEARLY_ALL * len(ns)
        if enough and len(set(there)) > 1 and _share_rising(None, ns) > LEAST_FIT:
            return _Times(one, TimesSeen(unit, without_zone=False, ns=ns))
    return None


def _guess_ts_and_arrival(
    times: list[_Times], groups: _Field | None
) -> tuple[Guess | None, Guess | None]:
    arrivals = [each for each in times if each.field.is_named(ARRIVAL_WORDS)]
    of_events = [each for each in times if each not in arrivals] or arrivals
    if not of_events:
        return None, None
    scores = {
        each.field.path: 0.6 * each.field.is_named(TS_WORDS)
        + 0.3 * len(set(each.ns)) / len(each.ns)
        + 0.3 * _share_rising(groups, each.ns)
        for each in of_events
    }
    # The earliest time is that of the event; later ones were added on its way.
    first_ns = of_events[0].ns
    of_events.sort(
        key=lambda each: (
            -round(scores[each.field.path] / ALIKE),
            _median_behind_ns(each.ns, first_ns),
        )
    )
    best = of_events[0].field
    rivals = _find_rivals(best, [each.field for each in of_events], scores)
    named = best.is_named(TS_WORDS)
    as_arrival = best.is_named(ARRIVAL_WORDS)
    sure: Sureness = "likely" if rivals or as_arrival or not named else "certain"
    seen = of_events[0].seen
    why = "a date with its time" if seen.unit is None else f"near now in {seen.unit}"
    if seen.without_zone:
        why, sure = "a time without a zone", "likely"
    if rivals:
        why += ", and the earliest of those that fit equally"
    arrival = next((each.field.path for each in arrivals if each.field is not best), None)
    found = Guess(arrival, "likely", "named as an arrival") if arrival else None
    return Guess(best.path, sure, why, rivals), found


def _share_rising(groups: _Field | None, ns: list[int | None]) -> float:
    """Return the share of steps between records of one source at which the time does not fall."""
    last: dict[str | None, int] = {}
    steps = rising = 0
    for source, at_ns in zip(groups.texts if groups else [None] * len(ns), ns, strict=True):
        if at_ns is None:
            continue
        if source in last:
            steps += 1
            rising += at_ns >= last[source]
        last[source] = at_ns
    return rising / steps if steps else 0.0


def _median_behind_ns(ns: list[int | None], of: list[int | None]) -> int:
    """Return how far the times are after those of another field, in ns; the median of the records.

    Each record is compared with itself, so the wrong clocks of some sources change little.
    """
    pairs = zip(ns, of, strict=True)
    apart = sorted(one - two for one, two in pairs if one is not None and two is not None)
    return apart[len(apart) // 2] if apart else 0


def _guess_by_name(fields: list[_Field], words: tuple[str, ...]) -> Guess | None:
    one = next((one for one in fields if one.is_named(words)), None)
    return Guess(one.path, "likely", "by its name") if one else None
