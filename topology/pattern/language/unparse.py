"""A tree as text: `parse(unparse(query)) == query` for every query that passes the checks.

What has its default is left out, except what reads better said; names are in back-ticks
where they must.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.pattern.tree import syntax
from topology.pattern.tree.defaults import with_defaults
from topology.pattern.tree.words import (
    AGGREGATES,
    DAY,
    FUNCTIONS,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    is_plain,
    quoted,
)

OR, AND, NOT, TEST, SUM, TERM, FACTOR, ATOM = range(8)
"""How tightly an expression holds together; one that is looser than its place asks for
is put in parentheses."""

_STRATEGY: Final = {
    "strict": "strict",
    "partition": "partition",
    "next": "skip_till_next",
    "any": "skip_till_any",
}
_SKIP: Final = {"next": "TO NEXT", "past_last": "PAST LAST", "first": "TO FIRST", "last": "TO LAST"}
_UNITS: Final = (
    (DAY, "d"),
    (HOUR, "h"),
    (MINUTE, "min"),
    (SECOND, "s"),
    (MILLISECOND, "ms"),
    (MICROSECOND, "us"),
)


def unparse(query: syntax.Query) -> str:
    """One clause a line."""
    lines = [f"QUERY {quoted(query.name)}"] if query.name else []
    lines.append(f"PATTERN {_Pattern().text(query.node)}")
    if query.where is not None:
        lines.append(f"WHERE {expression_text(query.where)}")
    lines.append(f"WITHIN {duration_text(query.within_ns)}")
    lines.extend(_options(query))
    if query.columns is not None or query.into:
        columns = ", ".join(map(_column, query.columns)) if query.columns else "*"
        columns = f"of each row {columns}" if query.all_rows else columns
        into = f" INTO {quoted(query.into)}" if query.into else ""
        lines.append(f"RETURN {columns}{into}")
    return "\n".join(lines)


def _options(query: syntax.Query) -> list[str]:
    options = []
    usual = with_defaults({"strategy": query.strategy, "sets": query.sets}, query.node)
    if query.strategy != "next":
        options.append(f"USING {_STRATEGY[query.strategy]}")
    if query.matches != usual["matches"] or query.limit != syntax.LIMIT or query.sets:
        sets = " AS SETS" if query.sets else ""
        limit = f" LIMIT {query.limit}" if query.limit != syntax.LIMIT else ""
        options.append(f"MATCHES {query.matches.upper()}{sets}{limit}")
    if query.skip != "none":
        names = [query.skip_to, *query.skip_also]
        to = f" {'|'.join(map(quoted, names))}" if query.skip_to else ""
        options.append(f"SKIP {_SKIP[query.skip]}{to}")
    if query.emit != usual["emit"] or query.slack_ns is not None:
        slack = f" {duration_text(query.slack_ns)}" if query.slack_ns is not None else ""
        options.append(f"EMIT {query.emit.upper()}{slack}")
    if query.ties == "key":
        options.append("TIES BY KEY")
    if query.uncertain != usual["uncertain"]:
        options.append(f"UNCERTAIN {query.uncertain.upper()}")
    return options


def _column(column: syntax.Column) -> str:
    text = expression_text(column.expr)
    return text if column.name == text else f"{text} AS {quoted(column.name)}"


def duration_text(length_ns: int) -> str:
    """In the largest unit that holds it without a fraction."""
    for unit_ns, unit in _UNITS:
        if length_ns and length_ns % unit_ns == 0:
            return f"{length_ns // unit_ns} {unit}"
    return f"{length_ns} ns"


class _Pattern:
    """Counts components, whose place is the hidden alias of those without one."""

    def __init__(self) -> None:
        self._place = 0

    def text(self, node: syntax.Node | syntax.Negation) -> str:
        match node:
            case syntax.EventNode():
                return self._event(node)
            case syntax.Negation():
                lasting = "" if node.for_ns is None else f" FOR {duration_text(node.for_ns)}"
                return f"!{self._component(node.types, node.alias)}{lasting}"
            case syntax.Seq(items):
                return f"SEQ({', '.join(map(self._item, items))})"
            case syntax.AllOf(nodes):
                return f"AND({', '.join(map(self.text, nodes))})"
            case syntax.AnyOf(nodes):
                return f"OR({', '.join(map(self.text, nodes))})"
            case syntax.CountedNode():
                quant = _quant(node.minimum, node.maximum) or "{1}"
                text = self.text(node.node) + quant + ("?" if node.reluctant else "")
                text += f" {quoted(node.name)}" if node.name else ""
                return text + (f" LOOP {node.loop.upper()}" if node.loop else "")

    def _item(self, item: syntax.Item) -> str:
        edge = f"{item.edge.upper()} " if item.edge else ""
        return edge + self.text(item.node) + _step(item.within_ns)

    def _component(self, types: Sequence[str], alias: str, quant: str = "", group: str = "") -> str:
        self._place += 1
        text = ("|".join("`_`" if each == "_" else quoted(each) for each in types) or "_") + quant
        return text if alias == f"_{self._place}" else f"{text} {quoted(alias)}{group}"

    def _event(self, node: syntax.EventNode) -> str:
        quant = _quant(node.minimum, node.maximum) + ("?" if node.reluctant else "")
        text = self._component(node.types, node.alias, quant, "[]" if node.is_group else "")
        if node.loop or node.greedy or node.loop_within_ns is not None:
            words = [node.loop.upper() if node.loop else "", "GREEDY" if node.greedy else ""]
            text += f" LOOP{_step(node.loop_within_ns)}"
            text += "".join(f" {word}" for word in words if word)
        if node.until is not None:
            text += f" UNTIL ({expression_text(node.until)})"
        return text


def _step(within_ns: int | None) -> str:
    return "" if within_ns is None else f" WITHIN {duration_text(within_ns)}"


def _quant(minimum: int, maximum: int) -> str:
    plain = {(1, 1): "", (1, syntax.UNBOUNDED): "+", (0, syntax.UNBOUNDED): "*", (0, 1): "?"}
    if (minimum, maximum) in plain:
        return plain[minimum, maximum]
    if minimum == maximum:
        return f"{{{minimum}}}"
    return f"{{{minimum},{'' if maximum == syntax.UNBOUNDED else maximum}}}"


def expression_text(expr: syntax.Expr) -> str:
    return _at(expr, OR)


def _at(expr: syntax.Expr, level: int) -> str:
    text, own = _rendered(expr)
    return text if own >= level else f"({text})"


def _rendered(expr: syntax.Expr) -> tuple[str, int]:
    """The text of an expression, and how tightly it holds together."""
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
            return _constant(expr)
        case syntax.Test() | syntax.Same():
            return _test(expr), TEST
        case _:
            return _atom(expr), ATOM


def _test(expr: syntax.Expr) -> str:
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
            return f"{_at(operand, SUM)} LIKE {_string(pattern)}"
        case syntax.Same(paths):
            return f"[{', '.join(map(_path, paths))}]"
    raise AssertionError(f"no text for {type(expr).__name__}")


def _constant(expr: syntax.Constant | syntax.Duration) -> tuple[str, int]:
    if isinstance(expr, syntax.Duration):
        return duration_text(expr.ns), FACTOR if expr.ns < 0 else ATOM
    value = expr.value
    if value is None or isinstance(value, bool):
        return str(value).upper() if value is not None else "NULL", ATOM
    if isinstance(value, str):
        return _string(value), ATOM
    text = repr(value)
    return text, FACTOR if text.startswith("-") else ATOM


def _atom(expr: syntax.Expr) -> str:
    match expr:
        case syntax.Param(name):
            return f"${name if is_plain(name) else quoted(name)}"
        case syntax.Ref(alias, path, index):
            of = f"{quoted(alias)}{_index(index)}." if alias else ""  # none in a RowAggregate
            return f"{of}{_path(path)}"
        case syntax.Previous(alias, path, back):
            places = f", {back}" if back > 1 else ""
            return f"PREV({quoted(alias)}.{_path(path)}{places})"
        case syntax.AggregateCall(function, alias, path, before):
            offset = "" if before is None else f"..i-{before}" if before else "..i"
            attribute = f".{_path(path)}" if path else ""
            return f"{function}({quoted(alias)}[{offset}]{attribute})"
        case syntax.Call(function, arguments):
            listed = ", ".join(expression_text(argument) for argument in arguments)
            return f"{_function(function)}({listed})"
        case syntax.RowRef() | syntax.RowAggregate() | syntax.Running():
            return row_text(expr)
        case _:
            raise AssertionError(f"no text for {type(expr).__name__}")


def row_text(expr: syntax.RowRef | syntax.RowAggregate | syntax.Running) -> str:
    """As SQL writes it; this language has no such words."""
    match expr:
        case syntax.RowRef(aliases, path, from_last, offset, shift):
            of = f"{'|'.join(aliases)}." if aliases else ""
            what = f"CLASSIFIER({'|'.join(aliases)})" if expr.is_label else f"{of}{_path(path)}"
            count = f", {offset}" if offset else ""
            text = f"{'LAST' if from_last else 'FIRST'}({what}{count})"
            text = f"{'NEXT' if shift > 0 else 'PREV'}({text}, {abs(shift)})" if shift else text
            return f"FINAL {text}" if expr.final else text
        case syntax.RowAggregate(function, aliases, operand):
            of = f"{'|'.join(aliases)}: " if aliases else ""
            text = f"{function}({of}{'*' if operand is None else _at(operand, OR)})"
            return f"FINAL {text}" if expr.final else text
        case syntax.Running(alias, test):
            return f"{quoted(alias)} AS {_at(test, OR)}"


def _function(name: str) -> str:
    """In back-ticks it is never taken for a built-in one of other case."""
    is_other = name not in FUNCTIONS and name.lower() in FUNCTIONS.keys() | AGGREGATES | {"prev"}
    return f"`{name}`" if is_other else quoted(name)


def _index(index: syntax.Index | None) -> str:
    match index:
        case None:
            return ""
        case syntax.Each(offset):
            return f"[i{offset:+d}]" if offset else "[i]"
        case syntax.At(position):
            return "[last]" if position == -1 else f"[{position}]"


def _path(path: Sequence[str]) -> str:
    return ".".join(name if is_plain(name) else quoted(name) for name in path)


def _string(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
