"""Grades conditions as yes, maybe or no, where event times are known only as intervals.

`.time` is the interval [low, high] of an event's possible times. Every other attribute is exact,
also `.ts` and `.error`. A condition that depends on the order inside a group (`[i]`, `[1]`,
`[..i-1]`, SQL's DEFINE) is uncertain if that order is. A function of an uncertain value is
uncertain, except abs and coalesce.

Results are sound, but not always the narrowest. An event that is named twice counts as two, so
`a.time - a.time` is not 0. For uncertain operands, the results of `%`, sqrt, stddev and a division
by an interval around 0 are unknown.

Grades are compared as numbers: AND is min, OR is max, NOT is YES - grade. NULL is NO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, Final

from topology.queries.pattern.compile import values
from topology.queries.pattern.compile.attributes import AbsentEntry, Get, attribute_getter
from topology.queries.pattern.compile.closures import Binding, Compiler, Frame, Value
from topology.queries.pattern.compile.scope import Scope
from topology.queries.pattern.compile.values import ANYTHING, ends_of, is_uncertain, make_interval
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.mentions import BY_ORDER, find_mentions
from topology.queries.pattern.tree.syntax import Expr


def reduce(function: str, group: Sequence[Any]) -> Any:
    if function == "count":
        return ANYTHING if ANYTHING in group else values.count(group)
    if not any(is_uncertain(value) for value in group):
        return values.AGGREGATES[function](group)
    if ANYTHING in group or function == "stddev":
        return ANYTHING
    ends = [pair for pair in map(ends_of, group) if pair is not None]
    lows, highs = zip(*ends, strict=True)
    of = values.AGGREGATES[function]
    return make_interval(of(lows), of(highs))


NO: Final = 0
MAYBE: Final = 1
YES: Final = 2


def compile_grade(expr: Expr, scope: Scope) -> Callable[[Binding], int]:
    """Compile a conjunct into a function that returns its grade for all bound entries.

    If all times are exact, the grade agrees with `Condition.holds`.
    """
    grader = Grader(scope)
    test = grader.compile_test(expr)
    variables = list(grader.variables.values())
    by_order = _order_dependent_slots(expr, scope)

    def grade(binding: Binding) -> int:
        if not all(is_ordered(binding[slot]) for slot in by_order):
            return MAYBE
        result = YES
        for frame in product(*[variable.all(binding[variable.slot]) for variable in variables]):
            held = test(binding, frame)
            if held is ANYTHING:
                result = MAYBE
            elif held is not True:
                return NO
        return result

    return grade


def is_ordered(group: Sequence[Entry]) -> bool:
    """Return whether the entries have the same order for all their possible event times."""
    return all(
        (one.high_ns, one.key[1:]) < (other.low_ns, other.key[1:]) for one, other in pairwise(group)
    )


def _order_dependent_slots(expr: Expr, scope: Scope) -> frozenset[int]:
    found = {mention.alias for mention in find_mentions(expr) if mention.how in BY_ORDER}
    return scope.groups & {scope.slots[alias] for alias in found if alias in scope.slots}


class Grader(Compiler):
    """A compiler for event times that are intervals; the other rules are those of `Compiler`."""

    def compile_attribute(self, path: tuple[str, ...]) -> Get:
        return _event_time if path == ("time",) else attribute_getter(path)

    def find_reducer(self, function: str) -> Callable[[Sequence[Any]], Any]:
        return lambda group: reduce(function, group)

    def before(self, expr: syntax.Previous) -> Get:
        certain, neighbours = super().before(expr), self.scope.environment.neighbours
        return lambda entry: certain(entry) if neighbours.is_sure(entry, -expr.back) else ANYTHING

    def _call(self, expr: syntax.Call) -> Value:
        certain = super()._call(expr)
        name, arguments = expr.function, [self.value(part) for part in expr.arguments]

        def call(binding: Binding, frame: Frame) -> Any:
            found = [part(binding, frame) for part in arguments]
            return ANYTHING if any(map(is_uncertain, found)) else certain(binding, frame)

        return certain if name in {"abs", "coalesce"} else call


def _event_time(entry: Entry | AbsentEntry) -> Any:
    if isinstance(entry, AbsentEntry):
        return None
    return make_interval(entry.low_ns, entry.high_ns)
