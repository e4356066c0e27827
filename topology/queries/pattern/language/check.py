"""Checks the meaning of a query: finds all errors other than syntax errors, and the warnings.

All of these checks are made before the query runs. Parameters and functions are checked against
those that the caller passes. Attributes are not checked, because an event may have any attribute
with any value. A tree that was built in code is checked like one that was read from text. For a
tree from text, pass the text too, so that the errors can show the line.

Cost: linear in the length of the query, and quadratic in the number of its components. A query has
at most `MAX_ALTERNATIVES` alternatives, each with at most `MAX_COMPONENTS` components
(`tree.normal_form`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from topology.queries.pattern.language.check_conditions import ConditionChecks
from topology.queries.pattern.language.check_pattern import check_pattern, check_skip
from topology.queries.pattern.language.check_warnings import add_warnings
from topology.queries.pattern.language.value_types import Params
from topology.queries.pattern.tree.errors import Findings, QueryError
from topology.queries.pattern.tree.free_groups import is_free
from topology.queries.pattern.tree.normal_form import NormalForm, normalise
from topology.queries.pattern.tree.syntax import FROM_START, AnyOf, Negation, Query
from topology.queries.pattern.tree.walk import MAX_DEPTH, find_too_deep, walk
from topology.queries.pattern.tree.words import MAX_NS


def check(
    query: Query,
    text: str = "",
    *,
    params: Params | None = None,
    functions: Collection[str] = (),
) -> list[QueryError]:
    """Return the warnings about a valid query; raise QueryRefused if the query has errors.

    `params` maps the query's parameters to their values. Pass None if the values are bound later,
    and check the query again then. `functions` contains the names of the user's own functions.
    """
    findings = Findings()
    deep = find_too_deep(query)
    if deep is not None:
        findings.report_too_deep(deep.span, MAX_DEPTH)
        findings.raise_errors(text)
    if not 0 < query.within_ns <= MAX_NS:
        span, message = query.place_of("WITHIN"), f"the window is {query.within_ns} ns"
        findings.add("E_WINDOW", span, message, "it must be above 0 and at most 2^62 ns")
    check_pattern(query, findings)
    check_skip(query, query.place_of("SKIP"), findings)
    ConditionChecks(query, params, functions, findings).check()
    clause = query.place_of("MATCHES", "USING")
    if query.matches in FROM_START and query.strategy == "any":
        word = query.matches.upper()
        message = f"{word} needs a first match, which skip_till_any does not define"
        findings.add("E_MODE", clause, message, "write MATCHES MAXIMAL or ALL")
    if query.matches == "maximal" and query.strategy != "any":
        message = "MAXIMAL works only with skip_till_any"
        findings.add("E_MODE", clause, message, "write USING skip_till_any, or MATCHES ONE or ALL")
    if query.matches == "one":
        for node in walk(query.node):
            if isinstance(node, AnyOf) and any(isinstance(each, Negation) for each in node.nodes):
                message = "ONE cannot choose between an event and an absence in an OR"
                hint = "write MATCHES BEST, which prefers the first branch, or MATCHES ALL"
                findings.add("E_MODE", node.span, message, hint)
    if query.matches == "best" and query.uncertain == "possible":
        span = query.place_of("UNCERTAIN")
        message = "BEST reports one match for a start, but POSSIBLE reports all possible matches"
        findings.add("E_MODE", span, message, "leave UNCERTAIN out, or write MATCHES ALL")
    findings.raise_errors(text)
    form = normalise(query)
    if query.strategy == "partition" and not form.same:
        message = "partition contiguity needs an attribute on which all events agree"
        findings.add("E_MODE", query.place_of("USING"), message, "name it in WHERE, like [room]")
    if query.sets:
        for message, hint in islice(_find_set_obstacles(form), 1):
            findings.add("E_SETS", clause, f"AS SETS: {message}", hint)
    findings.raise_errors(text)
    add_warnings(form, clause, findings)
    return findings.warnings


def _find_set_obstacles(form: NormalForm) -> Iterator[tuple[str, str]]:
    """Yield the reasons why AS SETS cannot describe the matches of the query, each with a hint.

    Each reason is reliable only if no reason precedes it, so callers use the first one.

    A set lists the events that may match each component. It describes the matches only if the order
    of the events alone decides which events belong together. This holds for a plain sequence of
    single events and free groups under skip-till-any. A free group takes every event between its
    neighbours. A condition on one event alone is no obstacle, nor is a partition key.
    """
    query = form.query
    alternative = form.alternatives[0]
    parts = alternative.components
    if query.strategy != "any" or any(part.edge != "any" for part in parts):
        hint = "write USING skip_till_any, without STRICT and NEXT steps"
        yield "every step must be under skip_till_any", hint
    if query.skip != "none":
        yield "SKIP applies to single matches, not to sets", "leave SKIP out"
    if query.uncertain != "ignore":
        yield "sets are not graded", "leave UNCERTAIN out, or write UNCERTAIN IGNORE"
    if len(form.alternatives) > 1 or not alternative.is_linear:
        yield "AND and OR do not form a plain sequence", "write one query for each order"
    if any(part.is_optional for part in parts):
        yield "a component of a set must not be optional", "write queries with and without it"
    if alternative.blockers:
        yield "a negation must be tested for each single match", "leave it out"
    if query.matches != "maximal" and any(part.is_group for part in parts):
        yield "each subset of a group would be a match", "write MATCHES MAXIMAL"
    if not all(is_free(alternative, part) for part in parts):
        yield "a group must contain all events between its neighbours", "write B+ b[]"
    if alternative.predicates:
        hint = "use conditions on single events, or on what all events agree on, like [room]"
        yield "a condition between events depends on more than their order", hint
