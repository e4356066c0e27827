"""Trees of queries that a text can express, sensible or not, for laws of parsing and unparsing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.syntax import UNBOUNDED
from topology.queries.pattern.tree.walk import flatten
from topology.queries.pattern.tree.words import AGGREGATES, KEYWORDS, MAX_NS

PLAIN_NAMES = st.sampled_from(["a", "Gas", "sets", "i", "s", "min", "first", "_1", "_2", "größe"])
ODD_NAMES = st.one_of(
    st.sampled_from(sorted(KEYWORDS)),
    st.sampled_from(["sum", "Abs", "--", "10", "5 min", "a.b", "_", "skip-till-any", "NOT", "'"]),
    st.text(st.characters(exclude_characters="`", exclude_categories=["Cs"]), min_size=1),
)
NAMES = st.one_of(PLAIN_NAMES, PLAIN_NAMES, ODD_NAMES)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
EDGES: Any = st.sampled_from([None, "strict", "next", "any"])
TYPES = st.lists(NAMES, max_size=3).map(tuple)
LENGTHS_NS = st.one_of(st.integers(0, 100).map(lambda n: n * 1_000_000_000), st.integers(0, MAX_NS))

CONSTANTS = st.builds(
    syntax.Constant,
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**40), 10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
)
INDEXES = st.one_of(
    st.builds(syntax.Each, st.integers(-9, 9)), st.builds(syntax.At, st.integers(-9, 9))
)
AGGREGATE = st.builds(
    syntax.AggregateCall,
    st.sampled_from(sorted(AGGREGATES)),
    NAMES,
    st.one_of(st.just(()), PATHS),
    st.one_of(st.none(), st.integers(0, 9)),
)
ATOMS = st.one_of(
    CONSTANTS,
    st.builds(syntax.Duration, LENGTHS_NS | LENGTHS_NS.map(lambda ns: -ns)),
    st.builds(syntax.Param, NAMES),
    st.builds(syntax.Ref, NAMES, PATHS, st.none() | INDEXES),
    AGGREGATE,
    st.builds(syntax.Previous, NAMES, PATHS, st.integers(1, 1_000)),
    st.builds(syntax.Same, st.lists(PATHS, min_size=1, max_size=3).map(tuple)),
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(syntax.Negative, inner),
        st.builds(syntax.Not, inner),
        st.builds(syntax.Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
        st.builds(syntax.Compare, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(
            syntax.In, inner, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple), st.booleans()
        ),
        st.builds(syntax.Between, inner, inner, inner),
        st.builds(syntax.IsNull, inner, st.booleans()),
        st.builds(syntax.Like, inner, st.text(max_size=5)),
        st.builds(syntax.Call, NAMES | st.just("abs"), st.lists(inner, max_size=3).map(tuple)),
        several.map(lambda parts: flatten(syntax.And, parts)),
        several.map(lambda parts: flatten(syntax.Or, parts)),
    )


EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(ATOMS, _grown, max_leaves=8)

COUNTS = st.one_of(
    st.sampled_from([(1, 1), (1, UNBOUNDED), (0, UNBOUNDED), (0, 1), (0, 0), (3, 2)]),
    st.tuples(st.integers(0, 9), st.integers(0, 9) | st.just(UNBOUNDED)),
)
EVENTS = st.builds(
    lambda types, alias, counts, loop, greedy, until, reluctant: syntax.EventNode(
        types, alias, counts[0], counts[1], loop, greedy, until,
        reluctant and counts[0] != counts[1],
    ),
    TYPES, NAMES, COUNTS, EDGES, st.booleans(), st.none() | EXPRESSIONS, st.booleans(),
)  # fmt: skip
NEGATIONS = st.builds(syntax.Negation, TYPES, NAMES, st.none() | LENGTHS_NS)


def _compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.builds(syntax.Item, inner | NEGATIONS, EDGES)
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(syntax.Seq, st.lists(items, min_size=1, max_size=4).map(tuple)),
        st.builds(syntax.AllOf, several),
        st.builds(syntax.AnyOf, several),
    )


NODES: st.SearchStrategy[Any] = st.recursive(EVENTS, _compounds, max_leaves=5)
SKIPS: Any = st.one_of(
    st.sampled_from([("none", ""), ("next", ""), ("past_last", "")]),
    st.tuples(st.sampled_from(["first", "last"]), NAMES),
)
EMITS: Any = st.one_of(
    st.sampled_from([("eager", None), ("final", None), ("slack", None)]),
    st.tuples(st.just("slack"), LENGTHS_NS),
)


@st.composite
def queries(draw: st.DrawFn) -> syntax.Query:
    skip, skip_to = draw(SKIPS)
    emit, slack_ns = draw(EMITS)
    columns = st.lists(st.builds(syntax.Column, EXPRESSIONS, NAMES), min_size=1, max_size=3)
    return syntax.Query(
        node=draw(NODES),
        within_ns=draw(st.integers(1, MAX_NS)),
        name=draw(st.just("") | NAMES),
        where=draw(st.none() | EXPRESSIONS),
        strategy=draw(st.sampled_from(["strict", "partition", "next", "any"])),
        matches=draw(st.sampled_from(["one", "best", "maximal", "all"])),
        sets=draw(st.booleans()),
        limit=draw(st.just(syntax.LIMIT) | st.integers(1, 10**6)),
        skip=skip,
        skip_to=skip_to,
        emit=emit,
        slack_ns=slack_ns,
        ties=draw(st.sampled_from(["strict", "key"])),
        uncertain=draw(st.sampled_from(["ignore", "nominal", "possible"])),
        columns=draw(st.none() | columns.map(tuple)),
        into=draw(st.just("") | NAMES),
    )
