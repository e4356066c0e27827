"""Grades conditions whose times are intervals: yes, maybe or no.

`.time` is the interval [low, high] of its event. Every other attribute is exact, `.ts` and `.error`
too. A condition that depends on the order inside a group (`[i]`, `[1]`, `[..i-1]`, SQL's DEFINE) is
in doubt if that order is. A function of a value in doubt is in doubt, except abs and coalesce.

Results are sound and not always the narrowest. An event that is named twice counts as two, so
`a.time - a.time` is not 0. The results of `%`, sqrt, stddev and divisors around 0 are unknown.

Grades are compared as numbers: AND is min, OR is max, NOT is YES - grade. NULL is NO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, Final

from topology.pattern.compile import values
from topology.pattern.compile.attributes import AbsentEntry, Get, attribute
from topology.pattern.compile.closures import Binding, Compiler, Frame, Value
from topology.pattern.compile.scope import Scope
from topology.pattern.compile.values import ANYTHING, between, ends_of, in_doubt
from topology.pattern.store.entry import Entry
from topology.pattern.tree import syntax
from topology.pattern.tree.mentions import BY_ORDER, mentions
from topology.pattern.tree.syntax import Expr


def reduce(function: str, group: Sequence[Any]) -> Any:
    if function == "count":
        return ANYTHING if ANYTHING in group else values.count(group)
    if not any(in_doubt(value) for value in group):
        return values.AGGREGATES[function](group)
    if ANYTHING in group or function == "stddev":
        return ANYTHING
    ends = [pair for pair in map(ends_of, group) if pair is not None]
    lows, highs = zip(*ends, strict=True)
    of = values.AGGREGATES[function]
    return between(of(lows), of(highs))


NO: Final = 0
MAYBE: Final = 1
YES: Final = 2


def grade(expr: Expr, scope: Scope) -> Callable[[Binding], int]:
    """Compile a conjunct into its grade over everything that is bound.

    If no time is in doubt, it agrees with `Condition.holds`.
    """
    grader = Grader(scope)
    test = grader.test(expr)
    variables = list(grader.variables.values())
    by_order = _looked_at_by_order(expr, scope)

    def graded(binding: Binding) -> int:
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

    return graded


def is_ordered(group: Sequence[Entry]) -> bool:
    """Return whether the order of keys is that of the event times, whichever these are."""
    return all(
        (one.high_ns, one.key[1:]) < (other.low_ns, other.key[1:]) for one, other in pairwise(group)
    )


def _looked_at_by_order(expr: Expr, scope: Scope) -> frozenset[int]:
    found = {mention.alias for mention in mentions(expr) if mention.how in BY_ORDER}
    return scope.groups & {scope.slots[alias] for alias in found if alias in scope.slots}


class Grader(Compiler):
    """A compiler for times that are intervals; its other rules are those of `Compiler`."""

    def attribute(self, path: tuple[str, ...]) -> Get:
        return _true_time if path == ("time",) else attribute(path)

    def reducer(self, function: str) -> Callable[[Sequence[Any]], Any]:
        return lambda group: reduce(function, group)

    def before(self, expr: syntax.Previous) -> Get:
        certain, neighbours = super().before(expr), self.scope.environment.neighbours
        return lambda entry: certain(entry) if neighbours.is_sure(entry, -expr.back) else ANYTHING

    def _call(self, expr: syntax.Call) -> Value:
        certain = super()._call(expr)
        name, arguments = expr.function, [self.value(part) for part in expr.arguments]

        def call(binding: Binding, frame: Frame) -> Any:
            found = [part(binding, frame) for part in arguments]
            return ANYTHING if any(map(in_doubt, found)) else certain(binding, frame)

        return certain if name in {"abs", "coalesce"} else call


def _true_time(entry: Entry | AbsentEntry) -> Any:
    if isinstance(entry, AbsentEntry):
        return None
    return between(entry.low_ns, entry.high_ns)
