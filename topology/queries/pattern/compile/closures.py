"""Compiles the nodes of an expression into closures (see `pattern.compile.expression`).

Each closure is a function of the binding and the *frame*. The frame has a value for each variable
over a group: an entry for `group.x`, and the number i for `group[i].x`. The most frequent shapes
have their own closures, like a field of one event or a comparison with a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from topology.queries.pattern.compile import rows, values
from topology.queries.pattern.compile.attributes import ABSENT, Get, attribute_getter
from topology.queries.pattern.compile.scope import Function, Scope
from topology.queries.pattern.compile.values import ANYTHING
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.syntax import Expr
from topology.queries.pattern.tree.turns import LIST

Binding = list[Sequence[Entry]]
"""The entries of each slot, in the order of their keys."""

Frame = tuple[Any, ...]
Value = Callable[[Binding, Frame], Any]

_CAPITAL: Final = re.compile("([A-Z])")
CONSTANTS: Final = syntax.Constant | syntax.Duration | syntax.Param
PREDICATES: Final = syntax.Test | syntax.Same | syntax.Not | syntax.And | syntax.Or | syntax.Running
"""Nodes whose value is TRUE, FALSE or NULL."""


@dataclass(slots=True)
class Variable:
    """A variable over the elements of a group, or over its index i.

    `counts`: whether it is an index. `low` and `high`: the lowest and the highest offset of the
    index in the expression.
    """

    slot: int
    counts: bool
    low: int
    high: int

    def reach(self, offset: int) -> None:
        self.low = min(self.low, offset)
        self.high = max(self.high, offset)

    def all(self, group: Sequence[Entry]) -> Sequence[Any]:
        """Return the values of the variable.

        For an absent group this is one value, for which all attributes are NULL.
        """
        if not group:
            return (1,) if self.counts else (ABSENT,)
        if not self.counts:
            return group
        return range(1 - self.low, len(group) - self.high + 1)

    def newest(self, group: Sequence[Entry]) -> tuple[Any, ...]:
        """Return the value that the last element of a group adds, or an empty tuple."""
        if not self.counts:
            return (group[-1],)
        at = len(group) - self.high
        return (at,) if at + self.low > 0 else ()


@dataclass(slots=True)
class Compiler:
    """A compiler of one expression in a scope.

    `variables`: the variables that were found, by slot and by whether they are indexes. `named`:
    the slots that the expression names. `needs_whole`: whether it has an aggregate over all of a
    group, an index other than [1], or `[a]`.
    """

    scope: Scope
    variables: dict[tuple[int, bool], Variable] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)
    needs_whole: bool = False

    def value(self, expr: Expr) -> Value:
        """Compile a node with the method that is named after its class."""
        if isinstance(expr, CONSTANTS):
            return _compile_constant(self.constant_of(expr))
        name = _CAPITAL.sub(r"_\1", type(expr).__name__).lower()
        make: Callable[[Any], Value] = getattr(self, name)
        return make(expr)

    def compile_attribute(self, path: tuple[str, ...]) -> Get:
        return attribute_getter(path)

    def compile_test(self, expr: Expr) -> Value:
        """Compile a node that is used as a truth value."""
        compiled = self.value(expr)
        if isinstance(expr, PREDICATES):
            return compiled
        return lambda binding, frame: values.to_truth(compiled(binding, frame))

    def find_reducer(self, function: str) -> Callable[[Sequence[Any]], Any]:
        return list if function == LIST else values.AGGREGATES[function]

    def constant_of(self, expr: Expr) -> Any:
        """Return the value of a literal, a duration or a parameter; None for other expressions."""
        match expr:
            case syntax.Constant(value=value):
                return values.null_if_nan(value)
            case syntax.Duration(ns=ns):
                return ns
            case syntax.Param(name=name):
                if name not in self.scope.environment.params:
                    raise ValueError(f"parameter {name} has no value")
                return values.null_if_nan(self.scope.environment.params[name])
            case _:
                return None

    # -- events -------------------------------------------------------------------------------

    def slot(self, alias: str) -> int | None:
        """Return the slot of an alias, or None if it belongs to another alternative."""
        slot = self.scope.slots.get(alias)
        if slot is not None:
            self.named.add(slot)
        return slot

    def _ref(self, expr: syntax.Ref) -> Value:
        slot, get, index = self.slot(expr.alias), self.compile_attribute(expr.path), expr.index
        if slot is None:
            return _compile_constant(None)
        if index is None or slot not in self.scope.groups:
            return self._compile_members(slot, get)
        if isinstance(index, syntax.At):
            self.needs_whole |= index.position != 1
            return _compile_element(slot, index.position, get)
        return _compile_each(slot, self.add_variable(slot, index.offset), index.offset, get)

    def _previous(self, expr: syntax.Previous) -> Value:
        slot, get = self.slot(expr.alias), self.before(expr)
        return _compile_constant(None) if slot is None else self._compile_members(slot, get)

    def _compile_members(self, slot: int, get: Get) -> Value:
        """Compile an attribute of a single event, or of each element of a group."""
        if slot not in self.scope.groups:
            return _compile_element(slot, 1, get)
        at = self.add_variable(slot)
        return lambda _, frame: get(frame[at])

    def before(self, expr: syntax.Previous) -> Get:
        """Return the function that reads the attribute of the event before an entry."""
        neighbours, back = self.scope.environment.neighbours, expr.back
        get = self.compile_attribute(expr.path)
        return lambda entry: get(neighbours.beside(entry, -back))

    def add_variable(self, slot: int, offset: int | None = None) -> int:
        """Return the position in the frame of a variable over this group.

        Without an offset, it is the variable over the elements. With an offset, it is the variable
        over i, and element i + offset must exist.
        """
        counts, place = offset is not None, offset or 0
        new = Variable(slot, counts, place, place)
        self.variables.setdefault((slot, counts), new).reach(place)
        return list(self.variables).index((slot, counts))

    def _aggregate_call(self, expr: syntax.AggregateCall) -> Value:
        reduce, before = self.find_reducer(expr.function), expr.before
        get: Callable[[Any], Any] = (
            self.compile_attribute(expr.path) if expr.path else lambda entry: entry
        )
        named = map(self.slot, (expr.alias, *expr.others))
        slots = [slot for slot in named if slot is not None]
        has_group = not self.scope.groups.isdisjoint(slots)
        if before is None or not has_group:
            self.needs_whole |= has_group
            return lambda binding, _: reduce([get(e) for slot in slots for e in binding[slot]])
        self.add_variable(slots[0], -before)
        at = self.add_variable(slots[0], 0)
        return lambda binding, frame: reduce(
            [get(entry) for entry in binding[slots[0]][: frame[at] - before]]
        )

    def _same(self, expr: syntax.Same) -> Value:
        """Compile the test that all bound entries agree on the paths.

        Each new event repeats the whole test.
        """
        gets = [self.compile_attribute(path) for path in expr.paths]
        self.named.update(self.scope.slots.values())
        self.needs_whole = True

        def are_same(binding: Binding, _: Frame) -> Any:
            members = [entry for entries in binding for entry in entries]
            return values.all_of(
                values.compare("=", get(members[0]), get(entry))
                for get in gets
                for entry in members
            )

        return are_same

    def _call(self, expr: syntax.Call) -> Value:
        name, arguments = expr.function, [self.value(part) for part in expr.arguments]
        function = values.FUNCTIONS.get(name)
        if function is None:
            if name not in self.scope.environment.functions:
                raise ValueError(f"function {name} is not known")
            call = _guard(self.scope.environment.functions[name])
            return lambda binding, frame: call([part(binding, frame) for part in arguments])
        if len(arguments) != 1 and (name != "coalesce" or not arguments):
            raise ValueError(f"{name} takes one argument, not {len(arguments)}")
        return lambda binding, frame: function(*[part(binding, frame) for part in arguments])

    # -- rows, as SQL names them --------------------------------------------------------------

    def _slots_of(self, aliases: Sequence[str], *, final: bool) -> tuple[int, ...]:
        """Return the slots of the aliases that the alternative has, or all slots for no aliases."""
        slots, whole_at = self.scope.slots, self.scope.whole_at if final else 0
        return tuple(whole_at + slots[alias] for alias in aliases or slots if alias in slots)

    def _row_ref(self, expr: syntax.RowRef) -> Value:
        every = self._slots_of((), final=expr.final or expr.is_label)
        slots = self._slots_of(expr.aliases, final=expr.final)
        find = rows.compile_finder(replace(expr, shift=0) if expr.beyond else expr, slots, every)
        if expr.is_label:
            return _compile_label(find, dict(zip(every, self.scope.labels, strict=False)))
        get, neighbours = self.compile_attribute(expr.path), self.scope.environment.neighbours

        def of(binding: Binding, _: Frame) -> Any:
            entry = find(binding)
            if entry is None:
                return None
            return get(neighbours.beside(entry, expr.shift) if expr.beyond else entry)

        return of

    def _row_aggregate(self, expr: syntax.RowAggregate) -> Value:
        slots = self._slots_of(expr.aliases, final=expr.final)
        reduce = self.find_reducer(expr.function)
        if expr.operand is None:
            return lambda binding, _: reduce([e for slot in slots for e in binding[slot]])
        operand = replace(self, scope=Scope({"": 0}, frozenset(), self.scope.environment))
        of = operand.value(expr.operand)
        return lambda binding, _: reduce(
            [of([(entry,)], ()) for entry in rows.in_order(binding, slots)]
        )

    def _running(self, expr: syntax.Running) -> Value:
        slot = self.slot(expr.alias)
        if slot is None:
            return _compile_constant(value=True)
        test = self.compile_test(expr.test)
        at = self.add_variable(slot) if slot in self.scope.groups else -1

        def holds(binding: Binding, frame: Frame) -> Any:
            entry: Any = frame[at] if at >= 0 else next(iter(binding[slot]), ABSENT)
            return entry is ABSENT or test(rows.rows_up_to(binding, entry), ())

        return holds

    # -- arithmetic ---------------------------------------------------------------------------

    def _negative(self, expr: syntax.Negative) -> Value:
        operand = self.value(expr.operand)
        return lambda binding, frame: values.negate(operand(binding, frame))

    def _arithmetic(self, expr: syntax.Arithmetic) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        operation, arithmetic = values.OPERATIONS[expr.operator], values.apply_operation
        return lambda binding, frame: arithmetic(
            operation, left(binding, frame), right(binding, frame)
        )

    # -- tests --------------------------------------------------------------------------------

    def _compare(self, expr: syntax.Compare) -> Value:
        left, right = self.value(expr.left), self.value(expr.right)
        constant, (_, types) = self.constant_of(expr.right), values.COMPARISONS[expr.operator]
        if type(constant) in types:
            return _compile_comparison(expr.operator, left, constant)
        compare, sign = values.compare, expr.operator
        return lambda binding, frame: compare(sign, left(binding, frame), right(binding, frame))

    def _in(self, expr: syntax.In) -> Value:
        equal = [syntax.Compare("=", expr.operand, constant) for constant in expr.values]
        test = self._or(syntax.Or(tuple(equal)))
        return _negate(test) if expr.negated else test

    def _between(self, expr: syntax.Between) -> Value:
        above = syntax.Compare(">=", expr.operand, expr.low)
        return self._and(syntax.And((above, syntax.Compare("<=", expr.operand, expr.high))))

    def _is_null(self, expr: syntax.IsNull) -> Value:
        operand, negated = self.value(expr.operand), expr.negated

        def is_null(binding: Binding, frame: Frame) -> Any:
            value = operand(binding, frame)
            return value if value is ANYTHING else (value is None) is not negated

        return is_null

    def _like(self, expr: syntax.Like) -> Value:
        operand, fits = self.value(expr.operand), values.compile_like(expr.pattern)
        return lambda binding, frame: fits(operand(binding, frame))

    def _not(self, expr: syntax.Not) -> Value:
        return _negate(self.compile_test(expr.operand))

    def _and(self, expr: syntax.And) -> Value:
        return _compile_junction(stop=False, parts=[self.compile_test(part) for part in expr.parts])

    def _or(self, expr: syntax.Or) -> Value:
        return _compile_junction(stop=True, parts=[self.compile_test(part) for part in expr.parts])


def _compile_constant(value: Any) -> Value:
    return lambda *_: value


def _compile_label(find: Callable[[Binding], Entry | None], labels: Mapping[int, str]) -> Value:
    """Compile the label of a row, which is the label of the slot that contains the row."""

    def of(binding: Binding, _: Frame) -> Any:
        row = find(binding)
        found = (label for slot, label in labels.items() if row in binding[slot])
        return None if row is None else next(found, None)

    return of


def _compile_element(slot: int, position: int, get: Get) -> Value:
    """Compile an attribute of the element `[position]`; NULL if there is no such element."""
    enough, at = abs(position), position - (position > 0)

    def of(binding: Binding, _: Frame) -> Any:
        group = binding[slot]
        return get(group[at]) if len(group) >= enough > 0 else None

    return of


def _compile_each(slot: int, variable: int, offset: int, get: Get) -> Value:
    shift = offset - 1

    def of(binding: Binding, frame: Frame) -> Any:
        group = binding[slot]
        return get(group[frame[variable] + shift]) if group else None

    return of


def _compile_comparison(sign: str, operand: Value, constant: Any) -> Value:
    """Compile a comparison with a constant of a type that the operator accepts."""
    test, types = values.COMPARISONS[sign]
    value_type, compare = types[type(constant)], values.compare

    def compare_values(binding: Binding, frame: Frame) -> Any:
        value = operand(binding, frame)
        if types.get(type(value)) is value_type:
            return test(value, constant)
        return None if value is None else compare(sign, value, constant)

    return compare_values


def _compile_junction(stop: bool, parts: Sequence[Value]) -> Value:
    """Compile the OR of the parts if `stop` is True, or their AND if `stop` is False.

    The result is `stop` if any part is `stop`. Otherwise it is ANYTHING if any part is, else NULL
    if any part is, else `not stop`.
    """
    other = not stop

    def test(binding: Binding, frame: Frame) -> Any:
        result: Any = other
        for part in parts:
            held = part(binding, frame)
            if held is stop:
                return stop
            if held is not other and result is not ANYTHING:
                result = held
        return result

    return test


def _negate(test: Value) -> Value:
    def negate(binding: Binding, frame: Frame) -> Any:
        result = test(binding, frame)
        return not result if type(result) is bool else result

    return negate


def _guard(function: Function) -> Callable[[list[Any]], Any]:
    def call(arguments: list[Any]) -> Any:
        try:
            return values.null_if_nan(function(*arguments))
        except Exception:  # noqa: BLE001 - a user's code; the value is NULL
            return None

    return call
