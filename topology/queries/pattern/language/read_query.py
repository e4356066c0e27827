"""Turns the grammar's parse tree into the tree of syntax.py.

Each method reads one rule of grammar.lark. The grammar accepts some invalid queries, so that this
module can report a clearer error than a syntax error. Examples are a duration without a unit,
GREEDY for a whole group, and a negation in the wrong place. Errors are collected; after an error
the tree is never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from lark import Token
from lark.visitors import v_args

from topology.queries.pattern.language.expected import hint_for_unit
from topology.queries.pattern.language.expression_text import expression_text
from topology.queries.pattern.language.read_conditions import ConditionReader, Name, Quant, place
from topology.queries.pattern.tree.defaults import with_defaults
from topology.queries.pattern.tree.errors import Findings, shorten
from topology.queries.pattern.tree.syntax import (
    AllOf,
    AnyOf,
    Column,
    CountedNode,
    Duration,
    Edge,
    EventNode,
    Expr,
    Item,
    Negation,
    Node,
    Query,
    Seq,
    Span,
    Strategy,
)
from topology.queries.pattern.tree.walk import find_too_deep_in

_EDGES: Final[Mapping[str, Edge]] = {"STRICT": "strict", "NEXT": "next", "ANY": "any"}
_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "STRICT": "strict",
    "PARTITION": "partition",
    "SKIP_TILL_NEXT": "next",
    "SKIP_TILL_ANY": "any",
}


class Loop(NamedTuple):
    """The fields of an EventNode that LOOP sets."""

    loop: Edge | None = None
    greedy: bool = False
    loop_within_ns: int | None = None


class QueryClause(NamedTuple):
    """A clause of the text; `values` maps the fields of Query that it sets to their values."""

    keyword: str
    values: dict[str, Any]
    span: Span


@v_args(wrapper=place)
class QueryReader(ConditionReader):
    """A reader of one query; it numbers the components, to name those without an alias."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._components = 0

    def query(self, span: Span, children: list[Any]) -> Query:
        fields: dict[str, Any] = {"node": EventNode((), "_1")}
        clauses: list[QueryClause] = []
        for child in children:
            match child:
                case Name():
                    fields["name"] = child.text
                case Duration():
                    fields["within_ns"] = self._check_window(child)
                case QueryClause():
                    clauses.append(child)
                case Negation():
                    message = "a pattern cannot consist of a negation alone"
                    hint = "put it into a SEQ with an event that must happen"
                    self.findings.add("E_NOT_ALONE", child.span, message, hint)
                case _:
                    fields["node"] = child
        fields |= with_defaults(self._merge(clauses), fields["node"])
        places = {clause.keyword: clause.span for clause in clauses}
        return Query(span=span, clauses=places, **fields)

    def _check_window(self, length: Duration) -> int:
        if length.ns <= 0:
            hint = "write more than 0, like 10 s"
            self.findings.add("E_WINDOW", length.span, "the window is empty", hint)
        return length.ns

    def _merge(self, clauses: Sequence[QueryClause]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        seen: set[str] = set()
        for keyword, values, span in clauses:
            if keyword in seen:
                message = f"{keyword} is written twice"
                self.findings.add("E_SYNTAX", span, message, "leave one of the two out")
            seen.add(keyword)
            merged |= values
        return merged

    def seq(self, span: Span, children: list[Item]) -> Seq:
        return Seq(tuple(children), span=span)

    def item(self, span: Span, children: list[Any]) -> Item:
        step = children.pop() if isinstance(children[-1], Duration) else None
        *edge, node = children
        if step and not isinstance(node, EventNode):
            message = "WITHIN on a step must follow a single event"
            hint = "put it after the first event inside"
            if isinstance(node, Negation):
                hint = f"write FOR, like !{'|'.join(node.types) or '_'} FOR 5 s"
                if node.for_ns is not None:
                    hint = "leave WITHIN out: FOR sets the duration"
            self.findings.add("E_SYNTAX", span, message, hint)
        return Item(node, edge[0] if edge else None, step.ns if step else None)

    def step(self, _: Span, children: list[Duration]) -> Duration:
        self._check_window(children[0])
        return children[0]

    def all_of(self, span: Span, children: list[Any]) -> AllOf:
        return AllOf(tuple(children), span=span)

    def any_of(self, span: Span, children: list[Any]) -> AnyOf:
        negations = [child for child in children if isinstance(child, Negation)]
        for number, child in enumerate(negations):
            if child.for_ns is None:
                message = "a negation in an OR needs a duration"
                hint = "add one, like !B FOR 5 s, or put the negation into a SEQ"
                self.findings.add("E_NOT_PLACE", child.span, message, hint)
            elif number:
                message = "an OR of two negations is not supported"
                hint = "write one of them, or AND for both at once"
                self.findings.add("E_NOT_PLACE", child.span, message, hint)
        return AnyOf(tuple(children), span=span)

    def quantified(self, span: Span, children: list[Any]) -> Node:
        node, count, *rest = children
        name = next((each.text for each in rest if isinstance(each, Name)), "")
        loop = next((each for each in rest if isinstance(each, Loop)), Loop())
        if loop.greedy or loop.loop_within_ns is not None:
            message = "LOOP of a whole group takes only STRICT, NEXT or ANY"
            hint = "put GREEDY and WITHIN on the events inside"
            self.findings.add("E_QUANT", span, message, hint)
        return CountedNode(node, **count._asdict(), name=name, loop=loop.loop, span=span)

    def negation(self, span: Span, children: list[Any]) -> Negation:
        node, *lasting = children
        if isinstance(node, EventNode) and node == EventNode(node.types, node.alias):
            return Negation(node.types, node.alias, lasting[0].ns if lasting else None, span=span)
        message = "only one event can be negated, not a group or a pattern"
        self.findings.add("E_NOT_PLACE", span, message, "write it like !B b, once for each type")
        return Negation((), "", span=span)

    def event(self, span: Span, children: list[Any]) -> EventNode:
        self._components += 1
        fields: dict[str, Any] = {"alias": f"_{self._components}"}
        for child in children[1:]:
            match child:
                case Name():
                    fields["alias"] = child.text
                case Quant() | Loop():
                    fields |= child._asdict()
                case _:
                    fields["until"] = child
        return EventNode(children[0], **fields, span=span)

    def types(self, _: Span, children: list[Name]) -> tuple[str, ...]:
        every = [name for name in children if name.text == "_" and not name.quoted]
        if every and len(children) == 1:
            return ()
        for name in every:
            message = "`_` matches every type, so other types beside it have no effect"
            self.findings.add("E_SYNTAX", name.span, message, "write `_` alone")
        return tuple(name.text for name in children)

    def edge(self, _: Span, children: list[Token]) -> Edge:
        return _EDGES[children[0].type]

    def loop(self, _: Span, children: list[Any]) -> Loop:
        edge = next((child for child in children if child in _EDGES.values()), None)
        within_ns = next((child.ns for child in children if isinstance(child, Duration)), None)
        return Loop(edge, any(isinstance(child, Token) for child in children), within_ns)

    def where(self, span: Span, children: list[Expr]) -> QueryClause:
        return QueryClause("WHERE", {"where": children[0]}, span)

    def strategy(self, _: Span, children: list[Token]) -> Strategy:
        return _STRATEGIES[children[0].type]

    def using(self, span: Span, children: list[str]) -> QueryClause:
        return QueryClause("USING", {"strategy": children[0]}, span)

    def matches(self, span: Span, children: list[Any]) -> QueryClause:
        values: dict[str, Any] = {"matches": children[0].lower()}
        for child in children[1:]:
            values |= {"sets": True} if isinstance(child, Token) else {"limit": child}
        return QueryClause("MATCHES", values, span)

    def limit(self, span: Span, children: list[Token]) -> int:
        limit = self.int_of(children[0])
        if limit < 1:
            self.findings.add("E_SYNTAX", span, "the limit is below 1", "write 1 or more")
        return limit

    def skip(self, span: Span, children: list[Any]) -> QueryClause:
        kind = children[0].lower()
        values = {"skip": "past_last" if kind == "last" else kind}
        if len(children) > 1:
            values = {"skip": kind, "skip_to": children[1].text}
        return QueryClause("SKIP", values, span)

    def emit(self, span: Span, children: list[Any]) -> QueryClause:
        kind, *slack = children
        values: dict[str, Any] = {"emit": kind.lower()}
        for length in slack:
            values["slack_ns"] = length.ns
            if length.ns < 0:
                self.findings.add("E_WINDOW", length.span, "slack is below 0", "write 0 s or more")
        return QueryClause("EMIT", values, span)

    def ties(self, span: Span, children: list[Token]) -> QueryClause:
        return QueryClause("TIES", {"ties": children[0].lower()}, span)

    def uncertain(self, span: Span, children: list[Token]) -> QueryClause:
        return QueryClause("UNCERTAIN", {"uncertain": children[0].lower()}, span)

    def length(self, span: Span, children: list[Any]) -> Duration:
        sign = -1 if children[0] == "-" else 1
        token = children[1] if sign < 0 else children[0]
        if token.type == "DURATION":
            return Duration(sign * self.duration_ns(token), span=span)
        unit = children[-1]
        if isinstance(unit, Name):
            message = f"`{shorten(unit.text)}` is not a unit of time"
            hint = hint_for_unit(unit.text)
        else:
            message = "the duration has no unit"
            hint = f"write it with one, like {shorten(token)} s"
        self.findings.add("E_WINDOW", span, message, hint)
        return Duration(1, span=span)

    def returns(self, span: Span, children: list[Any]) -> QueryClause:
        columns = tuple(child for child in children if isinstance(child, Column))
        into = next((child.text for child in children if isinstance(child, Name)), "")
        return QueryClause("RETURN", {"columns": columns or None, "into": into}, span)

    def column(self, _: Span, children: list[Any]) -> Column:
        expr = children[0]
        if len(children) > 1:
            name = children[1].text
        else:  # An expression too deep to render is refused after the whole query has been read.
            name = "" if find_too_deep_in(expr) else expression_text(expr)
        return Column(expr, name)
