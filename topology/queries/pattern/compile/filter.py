"""Compiles a filter (`topology.queries.pattern.language.filter`) into a test of one event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topology.base.event import Event
from topology.queries.pattern.compile.attributes import ATTRIBUTES, Get, attribute_getter
from topology.queries.pattern.compile.closures import Binding, Compiler, Frame, Value
from topology.queries.pattern.compile.scope import Scope
from topology.queries.pattern.language.filter import EVENT, read_filter
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree import syntax

Filter = Callable[[Event, Any], bool]
"""A test of an event with its payload; a condition that is NULL is not met."""


class FilterCompiler(Compiler):
    """A compiler of a filter, in which paths begin in the payload."""

    def compile_attribute(self, path: tuple[str, ...]) -> Get:
        return attribute_getter(("payload", *path))

    def value(self, expr: syntax.Expr) -> Value:
        if not isinstance(expr, syntax.Param):
            return super().value(expr)
        get = ATTRIBUTES[expr.name]

        def read_own(binding: Binding, _: Frame) -> Any:
            return get(binding[0][0])

        return read_own

    def constant_of(self, expr: syntax.Expr) -> Any:
        return None if isinstance(expr, syntax.Param) else super().constant_of(expr)


def compile_filter(text: str) -> Filter:
    """Return the test for the filter in `text`."""
    test = FilterCompiler(Scope({EVENT: 0})).compile_test(read_filter(text))
    entry = Entry(Event("", "", 0, 0, 0, 0), None)  # It is used again for each event.
    binding: Binding = [(entry,)]

    def holds(event: Event, payload: Any) -> bool:
        entry.event, entry.type, entry.payload = event, event.type, payload
        return test(binding, ()) is True

    return holds
