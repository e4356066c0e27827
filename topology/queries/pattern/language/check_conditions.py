"""Checks the expressions of a query: their names, indexes, functions and parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from topology.queries.pattern.language.expression_text import expression_text
from topology.queries.pattern.language.value_types import Params, ValueTypes
from topology.queries.pattern.tree.errors import Findings, shorten, suggest
from topology.queries.pattern.tree.mentions import (
    find_aliases,
    find_counted_aliases,
    find_mentions,
    looks_back,
)
from topology.queries.pattern.tree.syntax import (
    AggregateCall,
    At,
    Call,
    EventNode,
    Expr,
    Negation,
    Param,
    Previous,
    Query,
    Ref,
    Span,
    Test,
)
from topology.queries.pattern.tree.turns import MAX_ASKED, count_tests, find_counted_groups
from topology.queries.pattern.tree.walk import (
    find_components,
    find_expressions,
    split_conjuncts,
    walk,
)
from topology.queries.pattern.tree.words import FUNCTIONS, quote_path

Component = EventNode | Negation


class ConditionChecks:
    """A checker of all expressions in one query. `params` is None if the values are bound later."""

    def __init__(
        self,
        query: Query,
        params: Params | None,
        functions: Collection[str],
        findings: Findings,
    ) -> None:
        self._query = query
        self._params = params
        self._functions = {*FUNCTIONS, *functions}
        self._findings = findings
        self._known: Mapping[str, Component] = {
            each.alias: each for each in find_components(query.node)
        }
        groups = list(find_counted_groups(query.node))
        self._turned = {alias: group for group in groups for alias in group.aliases}
        self._indexed = {alias for group in groups for alias in group.indexed}
        self._named_turns = {group.node.name: group for group in groups if group.node.name}
        self._value_types = ValueTypes(self._known, params, findings)

    def check(self) -> None:
        checks: dict[type, Callable[[Any], None]] = {
            Ref: self._ref,
            AggregateCall: self._check_aggregate,
            Previous: self._check_previous,
            Call: self._check_call,
            Param: self._check_param,
        }
        for expr in find_expressions(self._query):
            for part in walk(expr):
                if isinstance(part, Test):
                    self._check_one_indexed_group(part)
                elif type(part) in checks:
                    checks[type(part)](part)
        for conjunct in split_conjuncts(self._query.where):
            self._value_types.condition(conjunct)
            self._check_negated(conjunct)
            self._check_turn_combinations(conjunct)
        for component in self._known.values():
            if isinstance(component, EventNode) and component.until is not None:
                self._value_types.condition(component.until)
        self._check_columns()

    def _find_component(self, alias: str, span: Span) -> Component | None:
        component = self._known.get(alias)
        if alias in self._named_turns:
            self._report_group_name(alias, span)
        elif component is None:
            message = f"no component is called `{shorten(alias)}`"
            self._findings.add("E_ALIAS_UNKNOWN", span, message, suggest(alias, self._known))
        return component

    def _report_group_name(self, name: str, span: Span) -> None:
        message = f"`{shorten(name)}` is the name of a group, not of an event"
        hint = f"write count({name}), or name an event of the group, like b[1].x"
        self._findings.add("E_ALIAS_UNKNOWN", span, message, hint)

    def _ref(self, ref: Ref) -> None:
        component = self._find_component(ref.alias, ref.span)
        if component is None or ref.index is None:
            return
        is_group = isinstance(component, EventNode) and component.is_group
        counts = is_group or ref.alias in self._indexed
        if ref.alias in self._turned and ref.alias not in self._indexed:
            self._report_ambiguous_index(ref.alias, ref.span)
        elif not counts:
            message = f"`{shorten(ref.alias)}` is a single event and has no index"
            hint = f"write {ref.alias}.{quote_path(ref.path)}, or make it a group with +"
            self._findings.add("E_INDEX", ref.span, message, hint)
        elif ref.index == At(0):
            message = "the elements of a group are counted from 1"
            self._findings.add("E_INDEX", ref.span, message, "write [1] or [first]")

    def _report_ambiguous_index(self, alias: str, span: Span) -> None:
        message = f"a turn may contain several `{shorten(alias)}` or none, so an index is ambiguous"
        hint = "index an event that each turn has exactly once, or use an aggregate"
        self._findings.add("E_INDEX", span, message, hint)

    def _check_previous(self, expr: Previous) -> None:
        if isinstance(self._find_component(expr.alias, expr.span), Negation):
            message = f"`{expr.alias}` is negated, and PREV needs an event of the match"
            self._findings.add("E_INDEX", expr.span, message, "use it on an event of the match")

    def _check_aggregate(self, expr: AggregateCall) -> None:
        if expr.alias in self._named_turns:
            self._check_turn_count(expr)
            return
        component = self._find_component(expr.alias, expr.span)
        if not expr.path and expr.function != "count":
            message = f"`{expr.function}` needs an attribute"
            hint = f"write it like {expr.function}({expr.alias}[].x)"
            self._findings.add("E_FUNCTION", expr.span, message, hint)
        if component is None:
            return
        if isinstance(component, Negation):
            message = f"`{expr.alias}` is negated, so there is nothing to count"
            self._findings.add("E_INDEX", expr.span, message, "use a group")
        elif expr.before is not None and expr.alias in self._turned:
            if expr.alias not in self._indexed:
                self._report_ambiguous_index(expr.alias, expr.span)
        elif expr.before is not None and not component.is_group:
            message = f"`{expr.alias}` is a single event, so there is none before it"
            self._findings.add("E_INDEX", expr.span, message, "make it a group with +")

    def _check_turn_count(self, expr: AggregateCall) -> None:
        if expr.function != "count" or expr.path or expr.before is not None:
            message = f"`{expr.alias}` is a group of several events: only its turns can be counted"
            self._findings.add("E_FUNCTION", expr.span, message, f"write count({expr.alias})")
        elif not self._named_turns[expr.alias].indexed:
            message = f"no event is always present in a turn of `{expr.alias}`"
            self._findings.add("E_FUNCTION", expr.span, message, "count one of its events")

    def _check_call(self, call: Call) -> None:
        count = len(call.arguments)
        if call.function not in self._functions:
            message = f"there is no function `{shorten(call.function)}`"
            hint = suggest(call.function, self._functions)
            self._findings.add("E_FUNCTION", call.span, message, hint)
        elif call.function in FUNCTIONS:
            low, high = FUNCTIONS[call.function]
            if not low <= count <= high:
                wanted = f"{low} argument" if low == high else f"{low} to {high} arguments"
                message = f"`{call.function}` takes {wanted}, not {count}"
                self._findings.add("E_FUNCTION", call.span, message, f"write {call.function}(b.x)")

    def _check_param(self, param: Param) -> None:
        if param.name in self._named_turns:
            self._report_group_name(param.name, param.span)
        elif param.name in self._known:
            message = f"`{shorten(param.name)}` is an event, not a value"
            hint = f"name one of its attributes, like {param.name}.x"
            self._findings.add("E_PARAM", param.span, message, hint)
        elif self._params is not None and param.name not in self._params:
            message = f"the parameter `${shorten(param.name)}` has no value"
            hint = suggest(param.name, self._params, hint_without_value(param.name, self._known))
            self._findings.add("E_PARAM", param.span, message, hint)

    def _check_one_indexed_group(self, expr: Expr) -> None:
        counted = sorted(find_counted_aliases(expr))
        groups = {id(self._turned.get(alias, alias)) for alias in counted}
        if len(groups) > 1:
            named = " and ".join(f"`{alias}`" for alias in counted)
            message = f"{named} cannot both be indexed with i"
            hint = "compare one element of the other group, like b[last].x, or an aggregate"
            self._findings.add("E_INDEX", expr.span, message, hint)

    def _check_negated(self, conjunct: Expr) -> None:
        negated = sorted(alias for alias in find_aliases(conjunct) if self._is_negated(alias))
        if len(negated) > 1:
            named = " and ".join(f"`{alias}`" for alias in negated)
            message = f"{named} are negated, so one condition cannot relate them"
            hint = "write a separate condition for each of them"
            self._findings.add("E_NOT_TWO", conjunct.span, message, hint)

    def _check_turn_combinations(self, conjunct: Expr) -> None:
        count = count_tests(conjunct, self._turned)
        if count > MAX_ASKED:
            message = f"the condition has {count} combinations of turns, more than {MAX_ASKED}"
            hint = "write it for one turn at a time, like b[i].x < c[i].x"
            self._findings.add("E_TOO_LARGE", conjunct.span, message, hint)

    def _is_negated(self, alias: str) -> bool:
        return isinstance(self._known.get(alias), Negation)

    def _check_columns(self) -> None:
        columns = self._query.columns or ()
        named = [(column.name, column.expr.span) for column in columns]
        self._findings.report_repeated_names("columns", named, "rename one of them with AS")
        for column in columns:
            span = column.expr.span
            self._value_types.of(column.expr)
            for each in walk(column.expr):
                if not each.children and find_counted_aliases(each):
                    message = f"`{expression_text(each)}` has one value for each i, not only one"
                    hint = "name one element, like b[last].x, or use an aggregate"
                    self._findings.add("E_INDEX", each.span, message, hint)
            plain = {m.alias for m in find_mentions(column.expr) if m.how == "plain"}
            if plain & self._turned.keys() and not isinstance(column.expr, Ref):
                message = "the values of all turns are a list, which no operation accepts"
                hint = "name one turn, like b[last].x, or use an aggregate"
                self._findings.add("E_INDEX", span, message, hint)
            if looks_back(column.expr) and self._query.emit == "slack":
                message = "PREV in RETURN may change while EMIT SLACK delays corrections"
                self._findings.add("E_MODE", span, message, "leave EMIT SLACK out")
            for alias in sorted(filter(self._is_negated, find_aliases(column.expr))):
                message = f"`{alias}` is negated, so it has no value to return"
                self._findings.add("E_NOT_RETURN", span, message, "leave it out")


def hint_without_value(name: str, known: Iterable[str]) -> str:
    """Return the hint for a parameter without a value.

    The user often meant an attribute of an event, so the hint begins with that.
    """
    event = next((alias for alias in known if not alias.startswith("_")), None)
    attribute = (
        f"`NAME.{shorten(name)}` if it is an attribute of an event that you name"
        if event is None
        else f"`{event}.{shorten(name)}` if it is an attribute of an event"
    )
    return (
        f"write {attribute}, `[{shorten(name)}]` if all events agree on it, or its value"
        " (`inorder match` takes it by --param)"
    )
