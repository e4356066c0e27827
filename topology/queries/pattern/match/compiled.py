"""Compiles a query: chooses its tactic, and determines which events it needs and for how long.

A *filter* is a set of types with conditions on one entry alone. Each slot (component or negation)
of each alternative has one. Slots with the same filter share one index, across all queries with the
same partition key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from topology.base.user_functions import UserFunctions
from topology.queries.pattern.compile import expression
from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.rows import rows_up_to
from topology.queries.pattern.compile.scope import NO_ENVIRONMENT, Environment, Scope
from topology.queries.pattern.match.earliest import EarliestStart
from topology.queries.pattern.match.evaluation import Tactic
from topology.queries.pattern.match.ids import MatchIds
from topology.queries.pattern.match.layout import Layout
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.sets import Sets
from topology.queries.pattern.match.tactics import tactic_for
from topology.queries.pattern.match.tactics.followed import steps_of
from topology.queries.pattern.match.tactics.rules import layouts_of
from topology.queries.pattern.match.uncertain.grade import Grading
from topology.queries.pattern.match.uncertain.possible import Possible
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.fingerprint import with_functions
from topology.queries.pattern.tree.mentions import (
    find_aliases,
    find_called,
    looks_back,
    looks_forward,
)
from topology.queries.pattern.tree.normal_form import (
    Alternative,
    NormalForm,
    has_choice,
    normalise,
    separate_timed,
)
from topology.queries.pattern.tree.syntax import EVERY_FIELD, Expr, Query
from topology.queries.pattern.tree.walk import find_expressions

Slot = tuple[int, int]
"""(alternative, component) or, for a negation, (alternative, number of components + negation)."""


class EntryFilter(NamedTuple):
    """The condition that an entry must meet to be indexed.

    The entry must have one of the types, or any type if none is given. It must also satisfy the
    conditions `own`, in which it is named `alias`.
    """

    types: frozenset[str]
    own: tuple[Expr, ...] = ()
    alias: str = ""


EVERYTHING = EntryFilter(frozenset())


@dataclass(frozen=True, slots=True)
class PatternShape:
    """The properties of a query that determine which units an event affects.

    Attributes:
        by_end: Whether its units are end events; otherwise they are start events.
        has_start_negation: Whether a match may begin with a negation.
        has_end_negation: Whether a match may end with a negation.
        looks_ahead: Whether an event after the end of a match may forbid it.
        open_tail: Whether a match may change until its window ends.
        strict: Whether events of any type may matter (STRICT, PREV, NEXT).
        everywhere: Whether these may be events of all partitions.
        skips: Whether a match depends on matches that start earlier (SKIP).
        looks_back: Whether it reads events up to one window before an event of the match (PREV).
        looks_on: Whether it reads events up to one window after an event of the match (NEXT).
    """

    by_end: bool
    has_start_negation: bool
    has_end_negation: bool
    looks_ahead: bool
    open_tail: bool
    strict: bool
    everywhere: bool
    skips: bool
    looks_back: bool
    looks_on: bool

    @property
    def needs_two_windows(self) -> bool:
        """Whether an event may be needed for two windows.

        It may matter to matches up to one window away, which are final only one window later.
        """
        if self.by_end:
            return self.looks_ahead or (self.has_start_negation and self.skips)
        return self.has_start_negation and (self.open_tail or self.skips)


class Compiled:
    """A query that is ready to run.

    Attributes:
        known_by: The fingerprint by which the query is recognised in a saved state.
        tactic: The algorithm that finds the matches of a unit.
        sets: The finder of all matches of an end event as one set; None without AS SETS.
        reads_beyond: Whether its columns read events outside the match.
        shows_apart: Whether its results do not follow from the events of the match alone, or have a
            row for each event (`run.emit`).
        steps: The steps that `tactics.followed` takes; None if it cannot follow the query.
        grading: The grader of matches by their time errors; None if the query ignores errors.
        possible: The finder of the possible matches; None without UNCERTAIN POSSIBLE.
        settles: Whether a match is final as soon as its evaluation is (`hi_ns`), even before its
            window ends. It is False if an error may still put the match in doubt.
        reach_ns: The time for which an entry is needed, if times are exact.
        filters: The filter of each slot.
        untils: The filters of the components with UNTIL.
        anchors: The slots that a unit's anchor can fill.
        ends: The slots that the last event of a match can fill.
        ids: The maker of its matches' ids.
    """

    def __init__(self, query: Query, environment: Environment = NO_ENVIRONMENT) -> None:
        self.query = query
        self.environment = environment
        self.name = query.name
        heeds_errors = query.uncertain != "ignore"
        self.form = separate_timed(normalise(query)) if heeds_errors else normalise(query)
        digest = UserFunctions(texts=environment.texts).state_digest(
            {"functions": find_called(query)}
        )
        self.known_by = with_functions(self.form.fingerprint, digest)
        layouts = layouts_of(self.form, environment)
        self.tactic: Tactic = tactic_for(layouts)
        self.sets = Sets(layouts[0]) if query.sets else None
        columns = [column.expr for column in query.columns or ()]
        self.reads_beyond = any(looks_back(expr) or looks_forward(expr) for expr in columns)
        self.shows_apart = self.reads_beyond or query.all_rows
        self.steps = None if self.shows_apart else steps_of(layouts)
        self.grading = Grading(layouts) if heeds_errors else None
        self.possible = Possible(layouts) if query.uncertain == "possible" else None
        self.within_ns = query.within_ns
        self.span_ns = self.form.span_ns
        self.shape = shape_of(self.form, layouts)
        is_by_start = (
            not self.shape.by_end and query.matches == "all" and not self.shape.looks_ahead
        )
        self.earliest = EarliestStart(layouts) if is_by_start else None
        self.settles = query.matches == "best" and query.skip == "none" and self.grading is None
        if self.shape.looks_on:
            self.span_ns += self.within_ns
        windows = 1 + self.shape.needs_two_windows + self.shape.looks_back + self.shape.looks_on
        self.reach_ns = self.within_ns * windows + (self.form.span_ns - self.within_ns) * 2
        self.filters: dict[Slot, EntryFilter] = {}
        self.untils: dict[Slot, EntryFilter] = {}
        for alternative in self.form.alternatives:
            self._add_filters(alternative)
        self.anchors = frozenset(
            (layout.number, j) for layout in layouts for j in self._anchors_of(layout)
        )
        self.ends = frozenset((layout.number, j) for layout in layouts for j in layout.ends)
        self.aliases = [
            [component.label or component.alias for component in alternative.components]
            for alternative in self.form.alternatives
        ]
        self.ids = MatchIds(self.form)
        self._shown = [_list_shown(alternative) for alternative in self.form.alternatives]
        self._layouts = layouts
        self._columns = _compile_columns(self.form, environment)
        self._hidden = {
            (a.number, c.index) for a in self.form.alternatives for c in a.components if c.hidden
        }

    def _anchors_of(self, layout: Layout) -> Iterable[int]:
        # With inexact times, any event may come first or last by corrected timestamps.
        if self.possible is not None:
            return range(layout.count)
        return layout.ends if self.shape.by_end else layout.starts

    def _add_filters(self, alternative: Alternative) -> None:
        number = alternative.number
        for component in alternative.components:
            slot = (number, component.index)
            self.filters[slot] = _make_filter(component.types, component.own, component.alias)
            if component.until is not None:
                self.untils[slot] = EntryFilter(component.types)
        count = len(alternative.components)
        for at, blocker in enumerate(alternative.blockers):
            own = tuple(e for e in blocker.predicates if find_aliases(e) <= {blocker.alias})
            self.filters[number, count + at] = _make_filter(blocker.types, own, blocker.alias)

    def decided_ns(self, match: Match) -> int:
        """Return the time after which no event can change the match, if times are exact.

        With SKIP, or if a match may change until its window ends, it is `span_ns` after the start
        of the match. By then all matches that start earlier are final, and so is the decision of
        SKIP.
        """
        if self.shape.open_tail or self.shape.skips:
            return match.first.time_ns + self.span_ns
        if self.shape.looks_on:
            return match.last.time_ns + self.within_ns
        if not self.shape.has_end_negation:
            return match.last.time_ns
        return self._layouts[match.alternative].settled_ns(match)

    @property
    def lag_ns(self) -> int:
        """The time after its end during which a match may still change, if times are exact."""
        shape = self.shape
        is_limited = any(layout.limits for layout in self._layouts)
        stays = shape.open_tail or shape.skips or shape.looks_on or is_limited
        return self.span_ns if stays else 0

    def end_ns(self, match: Match) -> int:
        """Return the time of the match's last event, or the end of a timed absence after it."""
        return max([match.last.time_ns, *self._layouts[match.alternative].over_ns(match)])

    def rows(self, match: Match) -> Iterator[tuple[str, Entry, dict[str, Any]]]:
        """Yield the events of a match in order of time, each with its alias and its columns.

        The columns are computed from the match up to that event, or from the whole match for FINAL
        in the query. The column * stands for all fields. Hidden events are left out.
        """
        whole, columns = self._binding_of(match), (self._columns or ())[match.alternative]
        for j, entry in match.label():
            if (match.alternative, j) in self._hidden:
                continue
            binding: Binding = [*rows_up_to(whole, entry), *whole]
            values: dict[str, Any] = {}
            for name, read in columns:
                value = read(binding)
                if name != EVERY_FIELD:
                    values[name] = value
                elif isinstance(value, dict):
                    values |= value
            yield self.aliases[match.alternative][j], entry, values

    def _binding_of(self, match: Match) -> Binding:
        return self._layouts[match.alternative].make_binding(match.bound)

    def values(
        self, match: Match, payloads: Callable[[Sequence[Entry]], Any] | None = None
    ) -> dict[str, Any]:
        """Return the columns of RETURN or, for RETURN *, the payloads by alias.

        `payloads` turns the entries of a group into a value; it is needed only for RETURN *.
        """
        if self._columns is not None:
            binding = self._binding_of(match)
            return {name: read(binding) for name, read in self._columns[match.alternative]}
        assert payloads is not None
        values: dict[str, Any] = {}
        bound = match.bound
        for alias, indexes, is_group in self._shown[match.alternative]:
            entries: Sequence[Entry] = bound[indexes[0]]
            if len(indexes) > 1:
                entries = [entry for index in indexes for entry in bound[index]]
            if is_group:
                values[alias] = payloads(entries)
            else:
                values[alias] = entries[0].payload if entries else None
        return values


def shape_of(form: NormalForm, layouts: Sequence[Layout]) -> PatternShape:
    query = form.query
    gaps = [gap for layout in layouts for gap in layout.gaps]
    at_end = [gap for gap in gaps if gap.at_end]
    stays = any(gap.for_ns is None and gap.limit is None for gap in at_end) or (
        bool(at_end)
        and query.matches != "all"
        and not (len(layouts) == 1 and form.alternatives[0].is_linear)
    )
    lasts = [layout.components[j] for layout in layouts for j in layout.ends]
    grows = query.matches == "one" and any(last.minimum != last.maximum for last in lasts)
    prefers = query.matches == "best" and has_choice(form.alternatives)
    goes = query.matches != "one" and any(layout.goes_on for layout in layouts)
    back = any(looks_back(expr) for expr in find_expressions(query))
    on = any(looks_forward(expr) for expr in find_expressions(query))
    strict = back or on or any(layout.is_strict for layout in layouts)
    return PatternShape(
        by_end=query.strategy == "any",
        has_start_negation=any(gap.at_start for gap in gaps),
        has_end_negation=bool(at_end),
        looks_ahead=bool(at_end) or goes,
        open_tail=stays or goes or grows or prefers,
        strict=strict,
        everywhere=strict and not form.by_partition and bool(form.same),
        skips=query.skip != "none",
        looks_back=back,
        looks_on=on,
    )


def _make_filter(types: frozenset[str], own: tuple[Expr, ...], alias: str) -> EntryFilter:
    return EntryFilter(types, own, alias if own else "")


def _list_shown(alternative: Alternative) -> list[tuple[str, list[int], bool]]:
    """Return each alias that RETURN * shows, its components, and whether it is a group."""
    found: dict[str, tuple[list[int], bool]] = {}
    for component in alternative.components:
        name = component.label or component.alias
        indexes, _ = found.setdefault(name, ([], component.is_group or bool(component.label)))
        indexes.append(component.index)
    return [(name, *rest) for name, rest in found.items() if not name.startswith("_")]


def _compile_columns(
    form: NormalForm, environment: Environment
) -> list[list[tuple[str, Callable[[Binding], Any]]]] | None:
    """Return the columns of each alternative, or None for RETURN *."""
    if form.query.columns is None:
        return None
    scopes = [Scope.of(alternative, environment) for alternative in form.alternatives]
    if form.query.all_rows:
        scopes = [replace(scope, whole_at=len(scope.slots)) for scope in scopes]
    return [
        [(each.name, expression.value(each.expr, scope)) for each in alternative.columns or ()]
        for alternative, scope in zip(form.alternatives, scopes, strict=True)
    ]
