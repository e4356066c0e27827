"""Infers the types of expressions before the query runs, and reports those that can only be NULL.

The types are numbers, text, flags (TRUE, FALSE) and NULL. None stands for any type, which
attributes of a payload have. An expression that can only be NULL, like `'a' > 3`, is the error
E_LITERAL. A comparison with the literal NULL is only a warning, W_ALWAYS_FALSE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from topology.queries.pattern.language.expression_text import expression_text
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.errors import Findings

ValueType = Literal["number", "text", "flag", "null"]
Value = bool | int | float | str | None
Params = Mapping[str, Value]

MAX_INT_DIGITS: Final = 100

_RESERVED_TYPES: Final[Mapping[str, ValueType]] = {
    "time": "number",
    "ts": "number",
    "error": "number",
    "seq": "number",
    "source": "text",
    "type": "text",
}
_TAKES_AND_GIVES: Final[Mapping[str, tuple[ValueType, ValueType]]] = {
    "abs": ("number", "number"),
    "sqrt": ("number", "number"),
    "lower": ("text", "text"),
    "upper": ("text", "text"),
    "length": ("text", "number"),
}
_A: Final[Mapping[ValueType, str]] = {
    "number": "a number",
    "text": "text",
    "flag": "TRUE or FALSE",
    "null": "NULL",
}


def value_type_of(value: Value) -> ValueType:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "flag"
    return "text" if isinstance(value, str) else "number"


class ValueTypes:
    """A checker that infers the types of one query's expressions.

    It reports expressions that can only be NULL.
    """

    def __init__(
        self,
        aliases: Iterable[str],
        params: Params | None,
        findings: Findings,
    ) -> None:
        self._aliases = aliases
        self._params = params or {}
        self._findings = findings

    def condition(self, expr: syntax.Expr) -> None:
        """Check an expression that must be TRUE or FALSE."""
        value_type = self.of(expr)
        if value_type in {"number", "text"}:
            self._report_never(expr, f"`{expression_text(expr)}` is not a condition", "compare it")
        elif isinstance(expr, syntax.Constant) and not expr.value:
            self._findings.add("W_ALWAYS_FALSE", expr.span, "this condition never holds")

    def of(self, expr: syntax.Expr) -> ValueType | None:
        """Check an expression and return the type of its value, or None if it can have any type."""
        match expr:
            case syntax.And() | syntax.Or() | syntax.Not() | syntax.Running():
                for each in expr.children:
                    self.condition(each)
                return "flag"
            case syntax.Test():
                self._check_test(expr)
                return "flag"
            case syntax.Same(paths):
                for alias in self._aliases:
                    for path in paths:
                        self._type_of_attribute(syntax.Ref(alias, path, span=expr.span))
                return "flag"
            case syntax.Negative() | syntax.Arithmetic():
                for each in expr.children:
                    self._expect(each, "number", "arithmetic needs numbers")
                return "number"
            case syntax.AggregateCall():
                return self._type_of_aggregate(expr)
            case syntax.Call():
                return self._type_of_call(expr)
            case _:
                return self._type_of_atom(expr)

    def _type_of_atom(self, expr: syntax.Expr) -> ValueType | None:
        match expr:
            case syntax.Constant(value):
                self._check_bound(expr)
                return value_type_of(value)
            case syntax.Duration():
                return "number"
            case syntax.Param(name) if name in self._params:
                return value_type_of(self._params[name])
            case syntax.Ref():
                return self._type_of_attribute(expr)
            case syntax.Previous(path=(first,)):
                return _RESERVED_TYPES.get(first)
            case syntax.RowRef(path=path):
                return _RESERVED_TYPES.get(path[0])
            case syntax.RowAggregate(function=function):
                return None if function in {"min", "max"} else "number"
            case _:
                return None

    def _check_bound(self, constant: syntax.Constant) -> None:
        value = constant.value
        if isinstance(value, float) and not math.isfinite(value):
            self._report_never(constant, f"{value} is not a number of the language", "use IS NULL")
        elif isinstance(value, int) and abs(value) >= 10**MAX_INT_DIGITS:
            self._report_never(constant, "the number is too long", "shorten it")

    def _check_test(self, expr: syntax.Test) -> None:
        match expr:
            case syntax.Compare(operator, left, right):
                self._check_compare(expr, left, right, is_order=operator not in {"=", "!="})
            case syntax.In(operand, values):
                value_type = self.of(operand)
                among = {value_type_of(value.value) for value in values} - {"null"}
                if value_type is not None and among and value_type not in among:
                    shown = f"`{expression_text(operand)}` is {_A[value_type]}, none of these is"
                    self._report_never(expr, shown, "compare values of one type")
            case syntax.Between(operand, low, high):
                self._check_compare(expr, operand, low, is_order=True)
                self._check_compare(expr, operand, high, is_order=True)
            case syntax.IsNull(operand):
                self.of(operand)
            case syntax.Like(operand):
                self._expect(operand, "text", "LIKE compares text")

    def _check_compare(
        self, whole: syntax.Expr, left: syntax.Expr, right: syntax.Expr, *, is_order: bool
    ) -> None:
        both = (self.of(left), self.of(right))
        one, other = both
        if "null" in both:
            message = "a comparison with NULL is never true"
            self._findings.add("W_ALWAYS_FALSE", whole.span, message, "write IS NULL")
        elif is_order and "flag" in both:
            self._report_never(whole, "TRUE and FALSE have no order", "compare with = or !=")
        elif one is not None and other is not None and one != other:
            left_shown = f"`{expression_text(left)}` is {_A[one]}"
            shown = f"{left_shown}, `{expression_text(right)}` is {_A[other]}"
            self._report_never(whole, shown, "compare values of one type")

    def _expect(self, expr: syntax.Expr, value_type: ValueType, why: str) -> None:
        found = self.of(expr)
        if found is not None and found not in {value_type, "null"}:
            self._report_never(expr, f"`{expression_text(expr)}` is {_A[found]}", why)

    def _type_of_aggregate(self, expr: syntax.AggregateCall) -> ValueType | None:
        value_type = self._type_of_attribute(expr) if expr.path else None
        if expr.function in {"sum", "avg", "stddev"} and value_type not in {None, "number"}:
            message = f"`{expr.function}` takes numbers, which `{'.'.join(expr.path)}` is not"
            self._report_never(expr, message, "use count, min or max")
        return None if expr.function in {"min", "max"} else "number"

    def _type_of_call(self, expr: syntax.Call) -> ValueType | None:
        takes, gives = _TAKES_AND_GIVES.get(expr.function, (None, None))
        for argument in expr.arguments:
            if takes is None:
                self.of(argument)
            else:
                self._expect(argument, takes, f"`{expr.function}` takes {_A[takes]}")
        return gives

    def _type_of_attribute(self, ref: syntax.Ref | syntax.AggregateCall) -> ValueType | None:
        first, *rest = ref.path
        if rest and first in _RESERVED_TYPES:
            message = f"`{first}` of an event has no attributes"
            hint = f"for a field of the payload, write {ref.alias}.payload.{'.'.join(ref.path)}"
            self._findings.add("E_ATTRIBUTE_UNKNOWN", ref.span, message, hint)
        return _RESERVED_TYPES.get(first)

    def _report_never(self, expr: syntax.Expr, message: str, hint: str) -> None:
        self._findings.add("E_LITERAL", expr.span, message, hint)
