"""Turns DEFINE and MEASURES into conditions and columns of the pattern language.

In DEFINE, a column without a variable belongs to the current row, which is being tested. In
MEASURES, it belongs to the last row of the match. `A.x` belongs to the last row of A up to then. A
condition on the current row alone becomes a condition on one event, which can use an index. Any
other condition becomes `Running`, which is evaluated on the match up to the current row.

PREV and NEXT move through the rows of the stream. If PATTERN guarantees that the row they reach is
in the match, they search only the match. Otherwise MEASURES searches the stream (`RowRef.beyond`).
DEFINE does so only for rows before the current row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from topology.queries.pattern.sql.read_clause import ColumnName, NamedValue, QuotedName
from topology.queries.pattern.sql.row_pattern import count_fewest_beside
from topology.queries.pattern.tree.defaults import count_fewest_events
from topology.queries.pattern.tree.errors import Findings, shorten, suggest
from topology.queries.pattern.tree.syntax import (
    RESERVED,
    Constant,
    Expr,
    Node,
    Previous,
    Ref,
    RowAggregate,
    RowRef,
    Running,
    Span,
)
from topology.queries.pattern.tree.walk import find_components, rewrite, split_conjuncts, walk
from topology.queries.pattern.tree.words import quote_path

OWN: Final[Mapping[str, str]] = {
    "ref_time": "time",
    "source": "source",
    "seq": "seq",
    "type": "type",
}
"""Columns that are attributes of the event itself, with their names in the pattern language."""


def key_of(name: str) -> str:
    """Return the key by which names are compared; only a quoted name keeps its case."""
    return name if isinstance(name, QuotedName) else name.upper()


class RowNames:
    """The meaning of the names in a clause.

    `variables` maps the keys of PATTERN's variables to their names. `unions` maps the key of each
    SUBSET to its variables. The names in `tables` refer to the rows themselves.
    """

    def __init__(self, pattern: Node, tables: Sequence[str], findings: Findings) -> None:
        self._findings = findings
        self.variables: dict[str, str] = {}
        self.unions: dict[str, tuple[str, ...]] = {}
        for each in find_components(pattern):
            self.variables.setdefault(key_of(each.alias), str(each.alias))
        self._tables = frozenset(map(key_of, tables))

    def of(self, name: str) -> tuple[str, ...] | None:
        """Return the variables that the name stands for, or None if it is unknown."""
        key = key_of(name)
        if key in self.variables:
            return (self.variables[key],)
        return self.unions.get(key)

    def resolve_name(self, name: str, span: Span) -> tuple[str, ...]:
        """Return the variables that the name stands for.

        If the name is unknown, report an error and return no variables.
        """
        found = self.of(name)
        if found is None:
            self.unknown(name, span)
        return found or ()

    def unknown(self, name: str, span: Span, otherwise: str = "") -> None:
        hint = suggest(name, self.variables.values(), otherwise)
        message = f"PATTERN has no variable `{shorten(name)}`"
        self._findings.add("E_ALIAS_UNKNOWN", span, message, hint)

    def is_known(self, name: str) -> bool:
        return self.of(name) is not None or key_of(name) in self._tables

    def split(self, parts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the variables before a column (none for all rows), and the column's path."""
        if len(parts) > 1:
            named = self.of(parts[0])
            if named is not None:
                return named, column_path(parts[1:])
            if key_of(parts[0]) in self._tables:
                return (), column_path(parts[1:])
        return (), column_path(parts)


def column_path(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a column, to an attribute of the event or a field of its payload."""
    own = OWN.get(parts[0].lower()) if len(parts) == 1 else None
    if own is not None:
        return (own,)
    plain = tuple(map(str, parts))
    if plain[0] in RESERVED and not (plain[0] == "payload" and len(plain) > 1):
        return ("payload", *plain)
    return plain


class RowConditions:
    """A translator of the conditions and measures of one clause.

    `copies` maps each variable to the aliases of its components. With `has_lines`, each row has its
    own result, and its measures are evaluated on the match up to that row.
    """

    def __init__(
        self,
        names: RowNames,
        pattern: Node,
        copies: Mapping[str, list[str]],
        findings: Findings,
        *,
        has_lines: bool,
    ) -> None:
        self._names = names
        self._has_lines = has_lines
        self._copies = copies
        self._findings = findings
        self._before = count_fewest_beside(pattern, behind=False)
        self._behind = count_fewest_beside(pattern, behind=True)
        self._rows = count_fewest_events(pattern)

    def of(self, name: str, expr: Expr) -> Iterator[Expr]:
        """Yield the conditions that `name AS expr` in DEFINE sets for each component of `name`."""
        for conjunct in split_conjuncts(expr):
            if conjunct == Constant(value=True):
                continue
            meant_by = self._resolve(conjunct, name)
            is_own = _is_of_the_row(meant_by, by_previous=self._goes_beyond(meant_by, name))
            for alias in self._copies[name]:
                if is_own:
                    yield rewrite(meant_by, partial(_plain, alias))
                else:
                    yield Running(
                        alias, rewrite(meant_by, self._expand_components), span=conjunct.span
                    )

    def measure(self, expr: Expr) -> Expr:
        found = rewrite(self._resolve(expr, ""), self._expand_components)
        return found if self._has_lines else rewrite(found, _drop_final)

    def key(self, path: ColumnName, *, from_last: bool = False) -> Expr:
        """Return a reference to a column of the first row of the match, or of the last row.

        A column of PARTITION BY has the same value in all rows, so the first row serves.
        """
        return RowRef((), column_path(path.parts), from_last, span=path.span)

    def _resolve(self, expr: Expr, name: str) -> Expr:
        """Return the expression with each reference split into variables and a path.

        A reference to the current row gets no variable. `name` is the variable of the current row,
        or empty in MEASURES.
        """

        def change(part: Expr) -> Expr:
            if isinstance(part, RowRef):
                aliases, path = self._split(part)
                found = replace(part, aliases=aliases, path=path)
                if name and aliases == (name,) and found.from_last and not found.offset:
                    found = replace(found, aliases=())
                return self._place(found, name)
            if isinstance(part, RowAggregate):
                return self._resolve_aggregate(part)
            return part

        return rewrite(expr, change)

    def _resolve_aggregate(self, expr: RowAggregate) -> RowAggregate:
        if expr.operand is None:
            named = [self._names.resolve_name(alias, expr.span) for alias in expr.aliases]
            return replace(expr, aliases=sum(named, ()))
        refs = [part for part in walk(expr.operand) if isinstance(part, RowRef)]
        of = {self._split(ref)[0] for ref in refs}
        if (
            len(of) != 1
            or not all(map(_is_last, refs))
            or any(ref.is_label for ref in refs)
            or any(isinstance(part, RowAggregate) for part in walk(expr.operand))
        ):
            message = f"`{expr.function}` takes one value for each row of one variable"
            hint = f"write it like {expr.function.upper()}(A.price)"
            self._findings.add("E_FUNCTION", expr.span, message, hint)
            return expr

        def drop_variable(part: Expr) -> Expr:
            if not isinstance(part, RowRef):
                return part
            return Ref("", self._names.split(part.path)[1], span=part.span)

        return replace(expr, aliases=of.pop(), operand=rewrite(expr.operand, drop_variable))

    def _split(self, ref: RowRef) -> tuple[tuple[str, ...], tuple[str, ...]]:
        first, *rest = ref.path
        if ref.is_label:
            return () if first == "*" else self._names.resolve_name(first, ref.span), ("type",)
        if rest and not self._names.is_known(first) and first != "payload":
            inside = f"write a field of a field after a variable, like A.{quote_path(ref.path)}"
            self._names.unknown(first, ref.span, inside)
        return self._names.split(ref.path)

    def _place(self, ref: RowRef, name: str) -> RowRef:
        """Return the reference, marked with `beyond` if its PREV or NEXT may leave the match.

        In DEFINE, only PREV of the current row may leave the match. An error is reported for any
        other reference in DEFINE that may.
        """
        message = hint = ""
        if not ref.shift or (ref.is_label and (ref.shift < 0 or not name)):
            return ref
        if ref.shift > 0 and name:
            message = "NEXT reads a row that is not known yet when this row is tested"
            hint = "write the condition for the variable of that row, with PREV"
        elif self._has_lines or abs(ref.shift) > self._count_rows_beside(ref, name):
            if not name:
                return replace(ref, beyond=True)
            if not _is_before_the_row(ref):
                message = "PREV goes beyond the rows of the match here"
                hint = "add a variable without a condition there, so that the row is in the match"
        if message:
            self._findings.add("E_SQL", ref.span, message, hint)
        return ref

    def _goes_beyond(self, expr: Expr, name: str) -> bool:
        """Return whether PREV of the current row may leave the match in this condition.

        An error is reported if such a condition also reads rows of the match.
        """
        beyond = [
            part
            for part in walk(expr)
            if isinstance(part, RowRef)
            and _is_before_the_row(part)
            and -part.shift > self._count_rows_beside(part, name)
        ]
        if beyond and not _is_of_the_row(expr, by_previous=True):
            message = "PREV goes beyond the match in a condition that also uses rows of the match"
            hint = "write it as a separate condition, joined by AND"
            self._findings.add("E_SQL", beyond[0].span, message, hint)
        return bool(beyond)

    def _count_rows_beside(self, ref: RowRef, name: str) -> int:
        """Return the smallest number of rows that the match has before the referenced row.

        For NEXT, return the smallest number of rows after it.
        """
        beside = self._before if ref.shift < 0 else self._behind
        if ref.aliases:
            return min(beside[each] for each in ref.aliases)
        if ref.from_last == (ref.shift > 0):
            return ref.offset
        rows = beside[name] if name else self._rows - 1
        return rows - ref.offset

    def _expand_components(self, part: Expr) -> Expr:
        if isinstance(part, RowRef | RowAggregate) and part.aliases:
            aliases = tuple(alias for name in part.aliases for alias in self._copies[name])
            return replace(part, aliases=aliases)
        return part


def _drop_final(part: Expr) -> Expr:
    """Remove FINAL, which equals RUNNING if the whole match has one result."""
    return replace(part, final=False) if isinstance(part, RowRef | RowAggregate) else part


def _is_last(ref: RowRef) -> bool:
    return ref.from_last and not ref.offset and not ref.shift


def _is_before_the_row(ref: RowRef) -> bool:
    """Return whether the reference is PREV of the current row."""
    is_from_here = not ref.aliases and ref.from_last and not ref.offset
    return is_from_here and ref.shift < 0 and not ref.is_label


def _is_of_the_row(expr: Expr, *, by_previous: bool) -> bool:
    """Return whether the expression depends on the current row alone.

    With `by_previous`, it may also depend on rows before that one, in the match or not.
    """
    rows = [part for part in walk(expr) if isinstance(part, RowRef | RowAggregate)]
    return bool(rows) and all(
        isinstance(ref, RowRef)
        and not ref.aliases
        and not ref.is_label
        and (_is_last(ref) or (by_previous and _is_before_the_row(ref)))
        for ref in rows
    )


def _plain(alias: str, part: Expr) -> Expr:
    if not isinstance(part, RowRef):
        return part
    if part.shift:
        return Previous(alias, part.path, -part.shift, span=part.span)
    return Ref(alias, part.path, span=part.span)


def report_repeated_names(named: Sequence[NamedValue], findings: Findings) -> None:
    seen: set[str] = set()
    for each in named:
        key = key_of(each.name.text)
        if key in seen:
            message = f"`{shorten(each.name.text)}` is defined twice"
            findings.add("E_ALIAS_TWICE", each.name.span, message, "rename one of them")
        seen.add(key)
