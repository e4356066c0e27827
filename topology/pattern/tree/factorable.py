"""Which queries can say the matches of an end event as one set (AS SETS).

A set is described by the events that may match each component. That says which matches there are
where nothing but the order of the events decides what goes together: in a plain sequence under
skip-till-any, of singles and of free groups, each of which holds all there is between its
neighbours. A condition on one event alone is no hindrance, nor is a partition key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topology.pattern.tree.free_groups import is_free
from topology.pattern.tree.normal_form import NormalForm


class Hindrance(NamedTuple):
    message: str
    hint: str


def hindrance(form: NormalForm) -> Hindrance | None:
    """Why the matches of this query are no such sets; None if they are."""
    return next(_hindrances(form), None)


def _hindrances(form: NormalForm) -> Iterator[Hindrance]:
    """Each supposes that there is none before it."""
    query = form.query
    alternative = form.alternatives[0]
    parts = alternative.components
    if query.strategy != "any" or any(part.edge != "any" for part in parts):
        hint = "write USING skip_till_any, and no other step"
        yield Hindrance("every step must skip till any", hint)
    if query.skip != "none":
        yield Hindrance("SKIP chooses among single matches", "leave SKIP out")
    if query.uncertain != "ignore":
        yield Hindrance("sets are not graded", "leave UNCERTAIN out, or write UNCERTAIN IGNORE")
    if len(form.alternatives) > 1 or not alternative.is_linear:
        yield Hindrance("AND and OR are no plain sequence", "write a query for each way")
    if any(part.is_optional for part in parts):
        yield Hindrance("what may be absent is no part of a set", "write a query with and without")
    if alternative.blockers:
        yield Hindrance("a negation looks at each match by itself", "leave it out")
    if query.matches != "maximal" and any(part.is_group for part in parts):
        yield Hindrance("each part of a group would be a match", "write MATCHES MAXIMAL")
    if not all(is_free(alternative, part) for part in parts):
        yield Hindrance("a group must hold all there is between its neighbours", "write B+ b[]")
    if alternative.predicates:
        yield Hindrance(
            "a condition between events says more than their order",
            "ask for what an event has by itself, or for what all agree on, like [room]",
        )
