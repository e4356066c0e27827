"""What a query means where it says nothing.

USING skip_till_next; MATCHES MAXIMAL for skip_till_any, else ONE; EMIT FINAL where a negation
can end the pattern (until the window is over nobody knows), else EAGER; UNCERTAIN IGNORE for
AS SETS, which grades nothing; the rest are the defaults of syntax.Query.
"""

from __future__ import annotations

from dataclasses import dataclass

from topology.pattern.tree.syntax import (
    LIMIT,
    AllOf,
    AnyOf,
    Column,
    Emit,
    EventNode,
    Expr,
    Late,
    Matches,
    Negation,
    Node,
    Query,
    Seq,
    Skip,
    Span,
    Strategy,
    Ties,
    Uncertain,
)


@dataclass(frozen=True, slots=True)
class Options:
    """As said; None where the default depends on the rest of the query."""

    strategy: Strategy = "next"
    matches: Matches | None = None
    limit: int = LIMIT
    sets: bool = False
    skip: Skip = "none"
    skip_to: str = ""
    emit: Emit | None = None
    slack_ns: int | None = None
    ties: Ties = "strict"
    late: Late = "report"
    uncertain: Uncertain | None = None


def default_matches(strategy: Strategy) -> Matches:
    return "maximal" if strategy == "any" else "one"


def default_uncertain(*, sets: bool) -> Uncertain:
    return "ignore" if sets else "nominal"


def default_emit(node: Node) -> Emit:
    return "final" if ends_in_negation(node) else "eager"


def ends_in_negation(node: Node | Negation) -> bool:
    """Whether a match can end in a gap in which nothing may happen."""
    match node:
        case Negation():
            return True
        case EventNode():
            return False
        case Seq():
            for each in reversed(node.children):
                if ends_in_negation(each):
                    return True
                if not can_be_absent(each):
                    return False
            return False
        case AllOf(nodes) | AnyOf(nodes):
            return any(ends_in_negation(each) for each in nodes)


def can_be_absent(node: Node | Negation) -> bool:
    """Whether a match may hold no event of it."""
    match node:
        case Negation():
            return True
        case EventNode():
            return node.minimum == 0
        case AnyOf(nodes):
            return any(can_be_absent(each) for each in nodes)
        case Seq() | AllOf():
            return all(can_be_absent(each) for each in node.children)


def settled(
    options: Options,
    *,
    node: Node,
    within_ns: int,
    name: str,
    where: Expr | None,
    columns: tuple[Column, ...] | None,
    into: str,
    span: Span,
) -> Query:
    """The query with every default in its place."""
    return Query(
        node=node,
        within_ns=within_ns,
        name=name,
        where=where,
        strategy=options.strategy,
        matches=options.matches or default_matches(options.strategy),
        limit=options.limit,
        sets=options.sets,
        skip=options.skip,
        skip_to=options.skip_to,
        emit=options.emit or default_emit(node),
        slack_ns=options.slack_ns,
        ties=options.ties,
        late=options.late,
        uncertain=options.uncertain or default_uncertain(sets=options.sets),
        columns=columns,
        into=into,
        span=span,
    )
