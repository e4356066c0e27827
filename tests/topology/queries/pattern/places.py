"""Indexes of a query over a handful of events, as an engine would have them, for tests of tactics.

Nothing is late or purged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.topology.queries.pattern.oracle import oracle, partitions
from topology.queries.pattern.compile import expression
from topology.queries.pattern.compile.scope import NO_ENVIRONMENT
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.evaluation import Evaluation, Place, Tactic
from topology.queries.pattern.match.match import Match, in_order
from topology.queries.pattern.match.tactics import tactic_for
from topology.queries.pattern.match.tactics.rules import layouts_of
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.mentions import find_aliases
from topology.queries.pattern.tree.normal_form import Blocker, NormalForm, normalise
from topology.queries.pattern.tree.syntax import Expr

NEXT = "USING skip_till_next MATCHES ONE"
NEXT_ALL = "USING skip_till_next MATCHES ALL"
STRICT = "USING strict MATCHES ONE"
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"
ALL = "USING skip_till_any MATCHES ALL"


def place(form: NormalForm, members: Sequence[Entry], entries: Sequence[Entry]) -> Place:
    """Return the place of one partition; `entries` are the entries of all partitions.

    PREV reads from this place until another is made.
    """
    components, blockers = [], []
    enders: dict[tuple[int, int], EntryIndex] = {}
    for alternative in form.alternatives:
        parts = alternative.components
        components.append([_index(members, p.types, p.own, p.alias) for p in parts])
        blockers.append([_of_negation(members, blocker) for blocker in alternative.blockers])
        untils = [part for part in parts if part.until is not None]
        enders |= {(alternative.number, p.index): _index(members, p.types) for p in untils}
    everything = _index(members if form.by_partition else entries, frozenset())
    NO_ENVIRONMENT.neighbours.set_events(everything, form.query.within_ns)
    return Place(components, blockers, everything, enders)


def _of_negation(members: Sequence[Entry], blocker: Blocker) -> EntryIndex:
    own = [expr for expr in blocker.predicates if find_aliases(expr) <= {blocker.alias}]
    return _index(members, blocker.types, own, blocker.alias)


def _index(
    entries: Iterable[Entry], types: frozenset[str], own: Sequence[Expr] = (), alias: str = ""
) -> EntryIndex:
    test = expression.compile_own_test(own, alias)
    index = EntryIndex()
    for entry in entries:
        if (not types or entry.type in types) and test(entry) is True:
            index.add(entry)
    return index


def units(
    form: NormalForm, entries: Sequence[Entry], tactic: Tactic | None = None
) -> list[tuple[Entry, Evaluation]]:
    """Return the evaluation of every possible unit, by the query's tactic or the given one."""
    tactic = tactic or tactic_for(layouts_of(form))
    found = []
    for members in partitions(form, entries):
        here = place(form, members, entries)
        found += [(anchor, tactic.evaluate(here, anchor)) for anchor in members]
    return found


def matches(
    form: NormalForm, entries: Sequence[Entry], tactic: Tactic | None = None
) -> list[Match]:
    found = [match for _, each in units(form, entries, tactic) for match in each.matches]
    return in_order(found)


def evaluate(form: NormalForm, stream: Sequence[Entry], anchor: Entry) -> Evaluation:
    return tactic_for(layouts_of(form)).evaluate(place(form, stream, stream), anchor)


def form_of(pattern: str, options: str = NEXT, within: int = 10, where: str = "") -> NormalForm:
    condition = f"WHERE {where}" if where else ""
    return normalise(parse_query(f"PATTERN {pattern} {condition} WITHIN {within} ns {options}"))


def contents(found: Sequence[Match]) -> list[object]:
    return [match.content for match in found]


def judged(form: NormalForm, stream: Sequence[Entry]) -> list[Match]:
    """Return the oracle's matches.

    Assert that the query's tactic finds the same, if nothing is skipped.
    """
    found = oracle(form, stream)
    if form.query.skip == "none":
        assert contents(matches(form, stream)) == contents(found)
    return found
