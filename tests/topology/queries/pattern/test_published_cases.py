"""Examples: published cases of other engines' test suites, as data.

Each case of cases/*.yaml runs through the real engine with its events in order. It then runs in
seeded random orders of arrival, with some events twice. The matches at the end are the case's
matches, each once. cases/README.md explains the engines' queries, and lists what this language
cannot express.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import Reader, checked, current
from tests.topology.queries.pattern.generate import entry, shuffled
from tests.topology.queries.pattern.oracle import oracle
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.words import UNITS_NS

CASES: Final = Path(__file__).parent / "cases"
SEEDS: Final = seeds_of_today(2)
JUDGED: Final = 14
"""The oracle tries everything, but for MATCHES ONE; more events are too many for it."""
LEAST: Final = {"flink": 40, "siddhi": 15, "esper": 15, "opencep": 15, "sase": 2}

Matches = Counter[tuple[tuple[str, str], ...]]
"""A match is its (alias, label) pairs in the order of time."""


@dataclass(frozen=True)
class Case:
    engine: str
    name: str
    source: str
    query: str
    events: tuple[Entry, ...]
    labels: tuple[str, ...]
    matches: Matches


def cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("*.yaml")):
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        streams = told.get("streams", {})
        for one in told["cases"]:
            rows = _rows(one["events"], streams)
            labels = tuple(row[0] for row in rows)
            assert len(set(labels)) == len(labels), f"{path.name}: {one['name']}: a label twice"
            unit_ns = UNITS_NS[one.get("unit", "ms")]
            yield Case(
                told["engine"],
                one["name"],
                one["source"],
                one["query"],
                tuple(_entry(seq, row, unit_ns) for seq, row in enumerate(rows)),
                labels,
                Counter(_match(text, labels) for text in one["matches"] or ()),
            )


def _rows(events: Any, streams: dict[str, Any]) -> list[list[Any]]:
    """Return the rows: `a1@3` is event a1 of type A at time 3; `$name` is a stream of the file."""
    if isinstance(events, list):
        return events
    if events.startswith("$"):
        return _rows(streams[events[1:]], streams)
    words = [word.split("@") for word in events.split()]
    return [[label, label[0].upper(), int(time)] for label, time in words]


def _entry(seq: int, row: list[Any], unit_ns: int) -> Entry:
    """Return the event of a row; its place is its number, so that equal times keep their order."""
    _, kind, time, *rest = row
    return entry(kind, round(time * unit_ns), seq, rest[0] if rest else {})


def _match(text: str, labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return pairs of alias and label from a text like `b=b1,b2 a=a1`."""
    pairs = []
    for word in text.split():
        alias, members = word.split("=")
        pairs += [(alias, label) for label in members.split(",")]
    return tuple(sorted(pairs, key=lambda pair: labels.index(pair[1])))


ALL: Final = tuple(cases())


each = pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.engine}-{case.name}") for case in ALL]
)


compiled = cache(checked)


def labelled(case: Case, found: Reader) -> Matches:
    return Counter(
        tuple((member.alias, case.labels[member.seq]) for member in result.members)
        for result in found.standing.values()
    )


@pytest.mark.slow
@each
def test_any_order_finds_the_case_matches(case: Case) -> None:
    """Some events come twice."""
    query, copies = compiled(case.query), 0.0
    for seed in (0, *SEEDS):
        arrivals = shuffled(Random(seed), case.events, disorder=bool(copies), copies=copies)
        assert labelled(case, current(query, arrivals)) == case.matches, f"seed {seed}"
        copies = 0.2


@each
def test_oracle_agrees_with_case(case: Case) -> None:
    """A case and the engine could both be wrong; the oracle finds matches in another way."""
    form = compiled(case.query).form
    if len(case.events) > JUDGED and form.query.matches != "one":
        pytest.skip(f"{len(case.events)} events are too many to try everything")
    names = [[part.label or part.alias for part in a.components] for a in form.alternatives]
    told = Counter(
        tuple((names[match.alternative][j], case.labels[one.event.seq]) for j, one in match.label())
        for match in oracle(form, case.events)
    )
    assert told == case.matches


def test_every_engine_has_cases() -> None:
    counts = Counter(case.engine for case in ALL)
    assert all(counts[engine] >= least for engine, least in LEAST.items()), counts
    assert counts.total() >= 100
    names = Counter((case.engine, case.name) for case in ALL)
    assert names.most_common(1)[0][1] == 1, names.most_common(3)
