"""A query as text: `parse(unparse(query)) == query` for every query that passes the checks.

Most defaults are left out; names are in back-ticks only if they must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.queries.pattern.language.expression_text import duration_text, expression_text
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.defaults import with_defaults
from topology.queries.pattern.tree.words import quote

_STRATEGY: Final = {
    "strict": "strict",
    "partition": "partition",
    "next": "skip_till_next",
    "any": "skip_till_any",
}
_SKIP: Final = {"next": "TO NEXT", "past_last": "PAST LAST", "first": "TO FIRST", "last": "TO LAST"}


def unparse(query: syntax.Query) -> str:
    """Return the text of the query, one clause per line."""
    lines = [f"QUERY {quote(query.name)}"] if query.name else []
    lines.append(f"PATTERN {_Pattern().text(query.node)}")
    if query.where is not None:
        lines.append(f"WHERE {expression_text(query.where)}")
    lines.append(f"WITHIN {duration_text(query.within_ns)}")
    lines.extend(_options(query))
    if query.columns is not None or query.into:
        columns = ", ".join(map(_column, query.columns)) if query.columns else "*"
        columns = f"of each row {columns}" if query.all_rows else columns
        into = f" INTO {quote(query.into)}" if query.into else ""
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
        to = f" {'|'.join(map(quote, names))}" if query.skip_to else ""
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
    return text if column.name == text else f"{text} AS {quote(column.name)}"


class _Pattern:
    """A writer of patterns; the place of a component is its hidden alias if it has no other."""

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
                text += f" {quote(node.name)}" if node.name else ""
                return text + (f" LOOP {node.loop.upper()}" if node.loop else "")

    def _item(self, item: syntax.Item) -> str:
        edge = f"{item.edge.upper()} " if item.edge else ""
        return edge + self.text(item.node) + _step(item.within_ns)

    def _component(self, types: Sequence[str], alias: str, quant: str = "", group: str = "") -> str:
        self._place += 1
        text = ("|".join("`_`" if each == "_" else quote(each) for each in types) or "_") + quant
        return text if alias == f"_{self._place}" else f"{text} {quote(alias)}{group}"

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
