"""Writes an expression as text; parsing the text returns an equal expression.

The exception is row expressions of MATCH_RECOGNIZE, such as `LAST(a.x)`. The pattern language has
no syntax for them, so they are written for messages only (`row_text`). Names that need quotes are
written in back-ticks.
"""

from __future__ import annotations

from topology.base.paths import backquote
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.words import (
    AGGREGATES,
    FUNCTIONS,
    UNITS_NS,
    is_plain,
    quote,
    quote_path,
)

OR, AND, NOT, TEST, SUM, TERM, FACTOR, ATOM = range(8)
"""The levels of precedence, from the loosest to the tightest.

An expression is written in parentheses if it binds more loosely than its place requires.
"""


def duration_text(length_ns: int) -> str:
    """Return a duration in the largest unit that needs no fraction."""
    for unit in ("d", "h", "min", "s", "ms", "us"):
        if length_ns and length_ns % UNITS_NS[unit] == 0:
            return f"{length_ns // UNITS_NS[unit]} {unit}"
    return f"{length_ns} ns"


def expression_text(expr: syntax.Expr) -> str:
    return _at(expr, OR)


def _at(expr: syntax.Expr, level: int) -> str:
    text, own = _render(expr)
    return text if own >= level else f"({text})"


def _render(expr: syntax.Expr) -> tuple[str, int]:
    """Return the text of an expression and its precedence."""
    match expr:
        case syntax.Or(parts):
            return " OR ".join(_at(part, AND) for part in parts), OR
        case syntax.And(parts):
            return " AND ".join(_at(part, NOT) for part in parts), AND
        case syntax.Not(operand):
            return f"NOT {_at(operand, TEST)}", NOT
        case syntax.Arithmetic(operator, left, right):
            level = SUM if operator in {"+", "-"} else TERM
            return f"{_at(left, level)} {operator} {_at(right, level + 1)}", level
        case syntax.Negative(operand):
            is_number = isinstance(operand, syntax.Constant | syntax.Duration)
            return f"-({_at(operand, OR)})" if is_number else f"-{_at(operand, ATOM)}", FACTOR
        case syntax.Constant() | syntax.Duration():
            return _constant_text(expr)
        case syntax.Test() | syntax.Same():
            return _test_text(expr), TEST
        case _:
            return _atom_text(expr), ATOM


def _test_text(expr: syntax.Expr) -> str:
    match expr:
        case syntax.Compare(operator, left, right):
            return f"{_at(left, SUM)} {operator} {_at(right, SUM)}"
        case syntax.In(operand, values, negated):
            among = ", ".join(_at(value, FACTOR) for value in values)
            return f"{_at(operand, SUM)} {'NOT ' if negated else ''}IN ({among})"
        case syntax.Between(operand, low, high):
            return f"{_at(operand, SUM)} BETWEEN {_at(low, SUM)} AND {_at(high, SUM)}"
        case syntax.IsNull(operand, negated):
            return f"{_at(operand, SUM)} IS {'NOT ' if negated else ''}NULL"
        case syntax.Like(operand, pattern):
            return f"{_at(operand, SUM)} LIKE {_string_text(pattern)}"
        case syntax.Same(paths):
            return f"[{', '.join(map(quote_path, paths))}]"
    raise AssertionError(f"no text for {type(expr).__name__}")


def _constant_text(expr: syntax.Constant | syntax.Duration) -> tuple[str, int]:
    if isinstance(expr, syntax.Duration):
        return duration_text(expr.ns), FACTOR if expr.ns < 0 else ATOM
    value = expr.value
    if value is None or isinstance(value, bool):
        return str(value).upper() if value is not None else "NULL", ATOM
    if isinstance(value, str):
        return _string_text(value), ATOM
    text = repr(value)
    return text, FACTOR if text.startswith("-") else ATOM


def _atom_text(expr: syntax.Expr) -> str:
    match expr:
        case syntax.Param(name):
            return f"${name if is_plain(name) else quote(name)}"
        case syntax.Ref(alias, path, index):
            # A reference inside a RowAggregate has no alias.
            of = f"{quote(alias)}{_index_text(index)}." if alias else ""
            return f"{of}{quote_path(path)}"
        case syntax.Previous(alias, path, back):
            places = f", {back}" if back > 1 else ""
            return f"PREV({quote(alias)}.{quote_path(path)}{places})"
        case syntax.AggregateCall(function, alias, path, before):
            offset = "" if before is None else f"..i-{before}" if before else "..i"
            attribute = f".{quote_path(path)}" if path else ""
            return f"{function}({quote(alias)}[{offset}]{attribute})"
        case syntax.Call(function, arguments):
            listed = ", ".join(expression_text(argument) for argument in arguments)
            return f"{_function_text(function)}({listed})"
        case syntax.RowRef() | syntax.RowAggregate() | syntax.Running():
            return row_text(expr)
        case _:
            raise AssertionError(f"no text for {type(expr).__name__}")


def row_text(expr: syntax.RowRef | syntax.RowAggregate | syntax.Running) -> str:
    """Return an expression over rows as SQL writes it; the pattern language has no such syntax."""
    match expr:
        case syntax.RowRef(aliases, path, from_last, offset, shift):
            of = f"{'|'.join(aliases)}." if aliases else ""
            what = (
                f"CLASSIFIER({'|'.join(aliases)})" if expr.is_label else f"{of}{quote_path(path)}"
            )
            count = f", {offset}" if offset else ""
            text = f"{'LAST' if from_last else 'FIRST'}({what}{count})"
            text = f"{'NEXT' if shift > 0 else 'PREV'}({text}, {abs(shift)})" if shift else text
            return f"FINAL {text}" if expr.final else text
        case syntax.RowAggregate(function, aliases, operand):
            of = f"{'|'.join(aliases)}: " if aliases else ""
            text = f"{function}({of}{'*' if operand is None else _at(operand, OR)})"
            return f"FINAL {text}" if expr.final else text
        case syntax.Running(alias, test):
            return f"{quote(alias)} AS {_at(test, OR)}"


def _function_text(name: str) -> str:
    """Return a function's name as a query must write it: in back-ticks if they are needed.

    Without them, it might be read as a built-in function or a reserved word, or not as a name.
    """
    is_other = name not in FUNCTIONS and name.lower() in FUNCTIONS.keys() | AGGREGATES | {"prev"}
    return backquote(name) if is_other else quote(name)


def _index_text(index: syntax.Index | None) -> str:
    match index:
        case None:
            return ""
        case syntax.Each(offset):
            return f"[i{offset:+d}]" if offset else "[i]"
        case syntax.At(position):
            return "[last]" if position == -1 else f"[{position}]"


def _string_text(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
