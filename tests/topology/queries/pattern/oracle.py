"""An oracle of patterns: all matches of a query over a handful of events, by trying everything.

Source: patterns.md 2.2 to 2.5. The oracle shares only the expressions and the normal form with the
engine. A *run* is a list of (component, entry) in the order of keys. Cost is exponential, so about
fourteen events are the limit.

It decides cases that the specification leaves open:

- A step into a group that has begun is a loop step, even if the run was elsewhere in between (AND).
  First eligibility for a component is judged on the events after the run's last.
- UNTIL looks at every event of the group's types after the group's first member, whatever the
  group's own conjuncts. The event at which it ends is no member, not even the first one.
- MATCHES ONE prefers a greedy group that has begun, then components that begin, then other groups,
  each by their place in the text. An ANY edge counts as NEXT.
- Among several branches of OR, ONE reports the valid walk that ends first. A blocked walk does not
  prevent another.
- GREEDY under ALL and MAXIMAL: no event that fits the group may lie after its last member and
  before the first of the next component. If the group is empty, this range begins at the
  members of the component before it or, without any, at the match's first. With nothing next, it
  goes to the end of the window. Order is by corrected timestamp (TIES BY KEY: by key). The first
  member of the next component may not fit the group itself. An event fits as it would fit the
  match's members before it; other members of the match (AND) are taken already.
- MAXIMAL compares matches of one alternative.
- A match is its events, each bound to an alias. Several alternatives may have it (`OR(C? c, D? d)`,
  if neither came). It is then one match, of the alternative whose FORs are decided first, and
  of these of the first in the text.
- Gaps of negations: see `normal_form.Blocker`. A member of the match may block it.
- SKIP TO FIRST/LAST of an empty component drops nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.queries.pattern.compile import closures, expression
from topology.queries.pattern.compile.attributes import ABSENT, AbsentEntry
from topology.queries.pattern.compile.expression import Condition
from topology.queries.pattern.compile.neighbours import Neighbours
from topology.queries.pattern.compile.scope import Environment, Scope
from topology.queries.pattern.match.match import Match, in_order
from topology.queries.pattern.store.entry import Entry, Identity, Key
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.defaults import can_be_absent
from topology.queries.pattern.tree.mentions import find_aliases
from topology.queries.pattern.tree.normal_form import (
    Alternative,
    Blocker,
    Component,
    NormalForm,
    Predicate,
    normalise,
    tests_null,
)
from topology.queries.pattern.tree.walk import find_components as components_of

Run = tuple[tuple[int, Entry], ...]
Choices = list[tuple[Any, ...]]
Binding = frozenset[tuple[str, Identity]]


def oracle(query: syntax.Query | NormalForm, entries: Iterable[Entry]) -> list[Match]:
    """Return the matches in the order of `match.in_order`; the first of duplicate events counts."""
    form = normalise(query) if isinstance(query, syntax.Query) else query
    once: dict[tuple[str, int, int], Entry] = {}
    for entry in entries:
        once.setdefault(entry.identity, entry)
    everything = sorted(once.values(), key=_key)
    found: list[Match] = []
    for members in partitions(form, everything):
        seen = members if form.by_partition else everything
        oracles = [AlternativeOracle(form, it, members, seen) for it in form.alternatives]
        found += _skipped(form, _reported(form, oracles))
    return in_order(found)


def valid(form: NormalForm, entries: Sequence[Entry]) -> list[Match]:
    """Return the matches as under MATCHES ALL and without SKIP, whatever the query has.

    Entries must be distinct.
    """
    found: list[Match] = []
    everything = sorted(entries, key=_key)
    for members in partitions(form, everything):
        seen = members if form.by_partition else everything
        for alternative in form.alternatives:
            found += AlternativeOracle(form, alternative, members, seen).all()
    return in_order(found)


def _key(entry: Entry) -> Key:
    return entry.key


class Before(Neighbours):
    """A list of the events before an event, from which PREV takes the last."""

    def __init__(self, seen: list[Entry], within_ns: int) -> None:
        super().__init__()
        self.seen = seen
        self.within_ns = within_ns

    def beside(self, entry: Entry | AbsentEntry, shift: int) -> Entry | AbsentEntry:
        if isinstance(entry, AbsentEntry):
            return entry
        back = -shift
        earlier = [one for one in self.seen if one.key < entry.key][-back:]
        is_near = len(earlier) == back and entry.time_ns - earlier[0].time_ns <= self.within_ns
        return earlier[0] if is_near else ABSENT


def partitions(form: NormalForm, events: Sequence[Entry]) -> list[list[Entry]]:
    if not form.same:
        return [list(events)]
    key_of = expression.partition(form.same)
    parts: dict[object, list[Entry]] = {}
    for entry in events:
        key = key_of(entry)
        if key is not None:
            parts.setdefault(key, []).append(entry)
    return list(parts.values())


def _reported(form: NormalForm, oracles: Sequence[AlternativeOracle]) -> list[Match]:
    if form.query.matches == "one":
        firsts = (_first_end(oracles, start) for start in oracles[0].events)
        return [match for match in firsts if match]
    matches = [match for oracle in oracles for match in oracle.all()]
    if form.query.matches == "best":
        return _best(form, matches)
    return _once(form, _maximal(matches) if form.query.matches == "maximal" else matches)


def _once(form: NormalForm, matches: list[Match]) -> list[Match]:
    found: dict[Binding, Match] = {}
    for match in sorted(matches, key=lambda one: (_decided_ns(form, one), one.alternative)):
        found.setdefault(binding_of(form, match), match)
    return list(found.values())


def binding_of(form: NormalForm, match: Match) -> Binding:
    """Return what identifies a match: its events, each with its alias."""
    components = form.alternatives[match.alternative].components
    return frozenset((components[j].alias, entry.identity) for j, entry in match.label())


def _decided_ns(form: NormalForm, match: Match) -> int:
    """Return when the FORs of a match are decided; an event at the end of one does not block."""
    return max([match.last.time_ns, *(over_ns - 1 for over_ns in _over_ns(form, match))])


def _first_end(oracles: Sequence[AlternativeOracle], start: Entry) -> Match | None:
    walks = [walk for oracle in oracles if (walk := oracle.walk(start))]
    return min(walks, key=lambda match: (match.last.key, match.alternative), default=None)


def _best(form: NormalForm, matches: list[Match]) -> list[Match]:
    """Return the least match of each start, in the order of the choices."""
    best: dict[Key, tuple[Choices, Match]] = {}
    for match in matches:
        components = form.alternatives[match.alternative].components
        taken = {part.alias: match.bound[part.index] for part in components}
        mine = (_choices(form.node, taken), match)
        known = best.setdefault(match.first.key, mine)
        if mine[0] < known[0]:
            best[match.first.key] = mine
    return [match for _, match in best.values()]


def _choices(node: syntax.Node | syntax.Negation, taken: Mapping[str, Sequence[Entry]]) -> Choices:
    """Return the choices of a match, as a regular expression makes them from left to right.

    `taken` has the events of the components of one alternative, by alias.
    """
    match node:
        case syntax.EventNode():
            go_on, stop = (1, 0) if node.reluctant else (0, 1)
            entries = taken.get(node.alias, ())
            went = [choice for entry in entries for choice in ((go_on,), entry.key)]
            return [*went, (stop,)] if len(entries) != node.maximum else went
        case syntax.AnyOf(nodes):
            for number, branch in enumerate(nodes):
                if any(each.alias in taken for each in components_of(branch)):
                    return [(number,), *_choices(branch, taken)]
            number = next(n for n, it in enumerate(nodes) if can_be_absent(it))
            return [(number,), *_choices(nodes[number], taken)]
        case syntax.AllOf():
            return _choices_of_all(node, taken)
        case syntax.Seq():
            return [choice for each in node.children for choice in _choices(each, taken)]
        case _:
            return []


def _choices_of_all(node: syntax.AllOf, taken: Mapping[str, Sequence[Entry]]) -> Choices:
    """Return the choices of an AND, whose events come in any order.

    Each event takes the component that is first in the text. An optional reluctant component comes
    after the end of the AND, the last in the text first.
    """
    choices: Choices = []
    parts = [each for each in components_of(node) if isinstance(each, syntax.EventNode)]
    members = [(one, at) for at, it in enumerate(parts) for one in taken.get(it.alias, ())]
    count: Counter[int] = Counter()
    for entry, at in sorted(members, key=lambda member: member[0].key):
        is_late = parts[at].reluctant and count[at] >= parts[at].minimum
        choices += [(2, -at) if is_late else (0, at), entry.key]
        count[at] += 1
    return [*choices, (1, 0)]


def _maximal(matches: list[Match]) -> list[Match]:
    sets = [{(j, entry.identity) for j, entry in match.label()} for match in matches]
    return [
        match
        for match, mine in zip(matches, sets, strict=True)
        if not any(
            mine < others and other.last is match.last and other.alternative == match.alternative
            for other, others in zip(matches, sets, strict=True)
        )
    ]


def _skipped(form: NormalForm, matches: list[Match]) -> list[Match]:
    query = form.query
    kept: list[Match] = []
    for match in sorted(matches, key=lambda it: (it.first.key, it.last.key, it.content)):
        if not any(_drops(form, earlier, match) for earlier in kept):
            kept.append(match)
    return kept if query.skip != "none" else matches


def _over_ns(form: NormalForm, kept: Match) -> Iterator[int]:
    """Yield the time at which each FOR at the end of a match is over."""
    alternative = form.alternatives[kept.alternative]
    for blocker in alternative.blockers:
        left = blocker.left.union(*(alternative.components[j].before for j in blocker.left))
        low = [entry for j in left for entry in kept.bound[j]]
        if blocker.for_ns is not None and low:
            yield _begun_ns(alternative, blocker, low, kept.bound) + blocker.for_ns


def _begun_ns(
    alternative: Alternative,
    blocker: Blocker,
    low: Sequence[Entry],
    bound: Sequence[Sequence[Entry]],
) -> int:
    """Return the time when the left side has come and each FOR before the negation is over."""
    begun = [entry.time_ns for entry in low]
    for at, ns in blocker.after:
        before = at.union(*(alternative.components[j].before for j in at))
        times = [entry.time_ns for j in before for entry in bound[j]]
        begun += [max(times) + ns] if times else []
    return max(begun)


def _drops(form: NormalForm, kept: Match, match: Match) -> bool:
    query = form.query
    if query.skip == "next":
        return match.first.key == kept.first.key
    if query.skip == "past_last":
        over_ns = max(_over_ns(form, kept), default=kept.last.time_ns)
        if over_ns > kept.last.time_ns:
            return match.first.time_ns <= over_ns
        return match.first.key <= kept.last.key
    components = form.alternatives[kept.alternative].components
    named = [part.index for part in components if (part.label or part.alias) == query.skip_to]
    keys = [entry.key for j in named for entry in kept.bound[j]]
    to = min if query.skip == "first" else max
    return bool(keys) and match.first.key < to(keys)


class AlternativeOracle:
    """An oracle of one alternative.

    `events` are the partition's events; `everything` are the events that a STRICT step looks at.
    """

    def __init__(
        self,
        form: NormalForm,
        alternative: Alternative,
        events: list[Entry],
        everything: list[Entry],
    ) -> None:
        self.form = form
        self.query = form.query
        self.alternative = alternative
        self.components = alternative.components
        self.events = events
        self.everything = everything
        self.slots = {part.alias: part.index for part in alternative.components}
        self.slots |= {
            blocker.alias: len(self.components) + k
            for k, blocker in enumerate(alternative.blockers)
        }
        self.groups = frozenset(part.index for part in self.components if part.is_group)
        self.environment = Environment(neighbours=Before(everything, form.query.within_ns))
        self.own = [expression.compile_own_test(part.own, part.alias) for part in self.components]
        self.conditions: dict[int, Condition] = {}
        """Conditions by the identity of their expressions."""
        self.untils = [
            expression.Condition(part.until, self._scope(), vacuous=None) if part.until else None
            for part in self.components
        ]

    # -- all of them ----------------------------------------------------------------------

    def all(self) -> list[Match]:
        found: list[Match] = []
        self._extend((), found)
        return found

    def _extend(self, run: Run, found: list[Match]) -> None:
        if run and self.is_valid(run) and not self._forgoes(run):
            found.append(self._match(run))
        for entry in self._behind(run, self.events):
            for part in self.components:
                if self._fits(run, part, entry) and self._steps(run, part, entry):
                    self._extend((*run, (part.index, entry)), found)

    # -- one of a start -------------------------------------------------------------------

    def walk(self, start: Entry) -> Match | None:
        run: Run = ()
        for entry in [start, *self._behind(((0, start),), self.events)]:
            fitting = [
                part
                for part in self.components
                if self._fits(run, part, entry) and self._steps(run, part, entry)
            ]
            if fitting:
                _, index = min(self._rank(run, part) for part in fitting)
                run = (*run, (index, entry))
            elif not run:
                return None
        return self._match(run) if self.is_valid(run) else None

    def _rank(self, run: Run, part: Component) -> tuple[int, int]:
        if not _taken(run, part.index):
            return (1, part.index)
        return (0 if part.greedy else 2, part.index)

    # -- what fits ------------------------------------------------------------------------

    def _fits(self, run: Run, part: Component, entry: Entry) -> bool:
        """Return whether the component is open and the event eligible."""
        return (
            self._is_open(run, part)
            and (not part.types or entry.type in part.types)
            and self.own[part.index](entry) is True
            and self._in_order(run, part, entry)
            and (not run or entry.time_ns - run[0][1].time_ns <= self.query.within_ns)
            and not self._is_ended(run, part, entry)
            and self._holds((*run, (part.index, entry)), at_end=False)
        )

    def _is_open(self, run: Run, part: Component) -> bool:
        is_full = part.maximum != syntax.UNBOUNDED and len(_taken(run, part.index)) >= part.maximum
        if is_full or self._is_closed(run, part.index):
            return False
        return all(len(_taken(run, k)) >= self.components[k].minimum for k in part.before)

    def _is_closed(self, run: Run, index: int) -> bool:
        """Return whether a successor has been taken."""
        return any(index in self.components[j].before for j, _ in run)

    def _in_order(self, run: Run, part: Component, entry: Entry) -> bool:
        earlier = [other for j, other in run if j in part.before]
        if self.query.ties == "key":
            return all(other.key < entry.key for other in earlier)
        return all(other.time_ns < entry.time_ns for other in earlier)

    def _is_ended(self, run: Run, part: Component, entry: Entry) -> bool:
        """Return whether UNTIL ends the group, at this event or at one since the group began."""
        until = self.untils[part.index]
        if until is None:
            return False
        group = _taken(run, part.index)
        between = [it for it in self.events if group and group[-1].key < it.key < entry.key]
        return any(self._ends(until, run, part, it) for it in [*between, entry])

    def _ends(self, until: Condition, run: Run, part: Component, entry: Entry) -> bool:
        before = tuple((j, other) for j, other in run if other.key < entry.key)
        binding = self._binding((*before, (part.index, entry)))
        is_asked = not part.types or entry.type in part.types
        return is_asked and until.holds_newest(binding, part.index) is True

    def _steps(self, run: Run, part: Component, entry: Entry) -> bool:
        """Return whether the step from the run's last event is as contiguous as it must be."""
        if not run:
            return True
        edge = part.loop if _taken(run, part.index) else part.edge
        if edge == "strict":
            return self._behind(run, self.everything)[0] is entry
        if edge == "next" or self.query.matches == "one":
            between = [it for it in self._behind(run, self.events) if it.key < entry.key]
            return not any(self._fits(run, part, it) for it in between)
        return True

    def _behind(self, run: Run, events: list[Entry]) -> list[Entry]:
        return [entry for entry in events if not run or entry.key > run[-1][1].key]

    # -- what holds -----------------------------------------------------------------------

    def is_valid(self, run: Run) -> bool:
        return (
            all(len(_taken(run, part.index)) >= part.minimum for part in self.components)
            and self._holds(run, at_end=True)
            and not any(self._is_blocked(run, blocker) for blocker in self.alternative.blockers)
        )

    def _holds(self, run: Run, at_end: bool) -> bool:
        """Return whether every predicate that is due holds."""
        binding = self._binding(run)
        return all(
            self._is_idle(predicate, binding)
            or self._condition(predicate.expr).holds(binding) is True
            for predicate in self.alternative.predicates
            if at_end or self._is_due(run, predicate)
        )

    def _forgoes(self, run: Run) -> bool:
        """Return whether a greedy group leaves out an event that it could have taken."""
        return any(
            self._is_left_out(run, part, entry)
            for part in self.components
            if part.greedy
            for entry in self.events
        )

    def _is_left_out(self, run: Run, part: Component, entry: Entry) -> bool:
        first = next((it for j, it in run if part.index in self.components[j].before), None)
        if entry is not first:
            if first is not None and not self._is_before(entry, first):
                return False
            if any(entry is it for _, it in run) or entry.key < run[0][1].key:
                return False
        if any(it.key > entry.key for j, it in run if j == part.index or j in part.before):
            return False
        so_far = tuple((j, it) for j, it in run if it.key < entry.key)
        return self._fits(so_far, part, entry) and self._steps(so_far, part, entry)

    def _is_before(self, one: Entry, other: Entry) -> bool:
        return one.key < other.key if self.query.ties == "key" else one.time_ns < other.time_ns

    def _is_due(self, run: Run, predicate: Predicate) -> bool:
        """Return whether all components that the predicate names are bound or closed.

        Components that it needs as a whole must be closed.
        """
        return all(
            self._is_closed(run, j) or (j not in predicate.whole and bool(_taken(run, j)))
            for j in predicate.aliases
        )

    def _is_idle(self, predicate: Predicate, binding: closures.Binding) -> bool:
        return predicate.skips_absent and not all(binding[j] for j in predicate.aliases)

    def _is_blocked(self, run: Run, blocker: Blocker) -> bool:
        low, high = self._sides(run, blocker)
        if not low and not high:
            return False
        candidates = self.events
        if blocker.strict:
            candidates = [it for it in self._next_to(low, high) if it in self.events]
        return any(
            (not blocker.types or entry.type in blocker.types)
            and self._in_gap(run, blocker, low, high, entry)
            and self._satisfies(run, blocker, entry)
            for entry in candidates
        )

    def _sides(self, run: Run, blocker: Blocker) -> tuple[list[Entry], list[Entry]]:
        """Return the members of the match on either side of the gap."""
        left, right = set(blocker.left), set(blocker.right)
        for part in self.components:
            if part.index in blocker.left:
                left |= part.before
            if part.before & blocker.right:
                right.add(part.index)
        return [it for j, it in run if j in left], [it for j, it in run if j in right]

    def _in_gap(
        self, run: Run, blocker: Blocker, low: list[Entry], high: list[Entry], entry: Entry
    ) -> bool:
        first, last = run[0][1].time_ns, run[-1][1].time_ns
        within = self.query.within_ns
        bound = [[it for j, it in run if j == part.index] for part in self.components]
        since = _begun_ns(self.alternative, blocker, low, bound) if low else last - within - 1
        until = min((it.time_ns for it in high), default=first + within + 1)
        if blocker.for_ns is not None and low:
            until = since + blocker.for_ns
        elif blocker.for_ns is not None:
            since = until - blocker.for_ns
        return since < entry.time_ns < until

    def _next_to(self, low: list[Entry], high: list[Entry]) -> list[Entry]:
        """Return the next event after the left side or, without one, before the right side."""
        if low:
            last = max(it.key for it in low)
            return [it for it in self.everything if it.key > last][:1]
        first = min(it.key for it in high)
        return [it for it in self.everything if it.key < first][-1:]

    def _satisfies(self, run: Run, blocker: Blocker, entry: Entry) -> bool:
        asked, binding = self._asked(run, blocker, entry)
        return all(self._condition(expr).holds(binding) is True for expr in asked)

    def _asked(
        self, run: Run, blocker: Blocker, entry: Entry
    ) -> tuple[list[syntax.Expr], closures.Binding]:
        """Return the conditions of a negation on the event, with their binding.

        Conditions that name an optional event that did not come are left out, unless they ask for
        NULL.
        """
        binding, asked = self._binding(run), []
        binding[self.slots[blocker.alias]] = [entry]
        for expr in blocker.predicates:
            named = [self.slots.get(alias) for alias in find_aliases(expr)]
            absent = any(slot is None or not binding[slot] for slot in named)
            if not absent or tests_null(expr):
                asked.append(expr)
        return asked, binding

    def _scope(self) -> Scope:
        return Scope(self.slots, self.groups, self.environment)

    def _condition(self, expr: syntax.Expr) -> Condition:
        if id(expr) not in self.conditions:
            self.conditions[id(expr)] = expression.Condition(expr, self._scope())
        return self.conditions[id(expr)]

    def _binding(self, run: Run) -> closures.Binding:
        count = len(self.components) + len(self.alternative.blockers)
        return [_taken(run, slot) for slot in range(count)]

    def _match(self, run: Run) -> Match:
        bound = tuple(tuple(_taken(run, part.index)) for part in self.components)
        return Match(self.alternative.number, bound)


def _taken(run: Run, index: int) -> list[Entry]:
    return [entry for j, entry in run if j == index]
