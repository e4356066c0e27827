"""Oracle: a query's condition leaves out events, and an aggregate's condition leaves out values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.events import copies
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import (
    OUTPUTS,
    agree,
    last_word,
    members_of,
    oracle,
    rendered,
    values_of,
)
from tests.topology.queries.window.streams import (
    MS,
    START,
    disordered,
    event,
    seeded,
    sorted_events,
)
from tests.topology.queries.window.test_oracle import KINDS, config_of, run
from topology.base.event import Event
from topology.base.result import WindowResult
from topology.config import Aggregate, TopologyError, parse
from topology.queries.pattern.compile.expression import compile_own_test
from topology.queries.pattern.compile.filter import compile_filter
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.store.entry import Entry
from topology.queries.window.operator import Windows
from topology.queries.window.settings import WindowQuery
from topology.stage.query_digest import query_digest

SEEDS = seeds_of_today(2)
LARGE = "payload.v > 0.2"
every_kind = pytest.mark.parametrize("kind", KINDS)


def is_large(one: Event) -> bool:
    value = (one.value or {}).get("v")
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0.2


def where_each(config: WindowQuery) -> WindowQuery:
    """Return the query with the condition at each aggregate, and a count without a condition."""
    named = dict(config.aggregate or {})
    filtered = {f"{name}, large": each._replace(where=LARGE) for name, each in named.items()}
    return config.model_copy(update={"aggregate": {"n": named["n"], **filtered}})


@every_kind
@pytest.mark.parametrize("keyed", [False, True], ids=["all", "keyed"])
def test_query_has_matching_events(kind: str, keyed: bool) -> None:
    for _, rng in seeded(SEEDS):
        config = config_of(kind, keyed=keyed, where=LARGE)
        events = sorted_events(rng, 70)
        stream = disordered(rng, copies(events), late=rng.choice((0.0, 0.1, 0.5)))
        agree(rendered(run(config, stream, rng), config), oracle(filter(is_large, events), config))


@every_kind
def test_aggregate_has_matching_values(kind: str) -> None:
    for seed, rng in seeded(SEEDS):
        plain = config_of(kind, keyed=seed % 2 == 0)
        config = where_each(plain)
        events = sorted_events(rng, 70)
        stream = disordered(rng, copies(events), late=rng.choice((0.0, 0.1, 0.5)))
        found = {
            window: dict(said)
            for window, said in rendered(run(config, stream, rng), config).items()
        }
        all_of = {window: said.pop("n") for window, said in found.items()}
        large = {
            window: {k.removesuffix(", large"): v for k, v in said.items()}
            for window, said in found.items()
        }
        members = members_of(events, plain)
        agree(
            large, {window: values_of([*filter(is_large, own)]) for window, own in members.items()}
        )
        assert all_of == {window: len(own) for window, own in members.items()}


def w_values(word: WindowResult) -> tuple[Any, ...]:
    return word.end_ns, *({name: four[name] for name in sorted(four)} for four in of_word(word))


def of_word(word: WindowResult) -> tuple[dict[str, Any], ...]:
    return word.values, word.low, word.high, word.expected


@every_kind
@pytest.mark.parametrize("uncertainty", [None, "expected", "thesis3"])
def test_filter_matches_a_filtered_field(kind: str, uncertainty: Any) -> None:
    """A field that has a value only if the condition is met gives the same results."""
    for _, rng in seeded(SEEDS):
        events = sorted_events(rng, 60)
        for one in events:
            one.error_ns = rng.choice((0, 2, 9)) * MS
            if one.value is not None:
                one.value["large"] = one.value["v"] if is_large(one) else None
        known = {"uncertainty": uncertainty, "clock": {"max_error_ns": 9 * MS}}
        if kind in ("session", "count") and uncertainty:
            continue
        stream = disordered(rng, events)
        config = config_of(kind, keyed=True, **known)
        names = ("sum", "avg", "min", "max", "stddev", "median", "distinct", "first", "last")
        of = dict(config.aggregate or {})
        always = "payload.v IS NULL OR payload.v IS NOT NULL"
        by_where = {n: of[n]._replace(where=LARGE) for n in names}
        by_where["n"] = Aggregate("count", where=always)
        by_field = {n: of[n]._replace(path=("payload", "large")) for n in names}
        by_field["n"] = Aggregate("count")
        said = []
        for aggregate in (by_where, by_field):
            own_config = config.model_copy(update={"aggregate": aggregate})
            words = last_word(run(own_config, copies(stream)))
            said.append(sorted(repr((w.key, w.start_ns, *w_values(w))) for w in words))
        assert said[0] == said[1]


def test_plain_case_matches_general_case() -> None:
    for kind in ("tumbling", "sliding"):
        for _, rng in seeded(SEEDS):
            stream = disordered(rng, sorted_events(rng, 300), late=0.02)
            for config in (
                config_of(kind, keyed=True, where=LARGE, outputs=OUTPUTS[:5]),
                where_each(config_of(kind, keyed=False, outputs=OUTPUTS[:5])),
            ):
                found = []
                for plain in (True, False):
                    windows = Windows("default", config, plain=plain)
                    results = windows.on_batch(copies(stream), stream[-1].at_ns).results
                    ended = windows.on_end(stream[-1].at_ns).results
                    found.append((results, ended, windows.snapshot(), windows.figures()))
                assert found[0] == found[1]


CONDITIONS = (
    "V.v > 2",
    "V.v = '2' OR V.in.w < V.v",
    "NOT V.v > 2",
    "V.v IS NULL",
    "V.v IS NOT NULL AND NOT V.type = 'x'",
    "V.v IN (1, 'a', TRUE)",
    "V.v BETWEEN -1 AND 2",
    "V.v LIKE '%a'",
    "abs(V.v) + 1 > 2",
    "coalesce(V.in.w, V.v) * 2 >= 4",
    "length(V.v) = 1",
    "V.`a b` = TRUE",
)
VALUES = (None, 1, 2, 2.0, -3, "a", "2", True, [1], {"w": 2}, {"w": 7}, float("nan"), 10**400)


@pytest.mark.parametrize("text", CONDITIONS)
def test_filter_matches_pattern_condition(text: str) -> None:
    query = parse_query(f"PATTERN _ v WHERE {text.replace('V.', 'v.payload.')} WITHIN 1 s")
    assert query.where is not None
    test, holds = (
        compile_own_test([query.where], "v"),
        compile_filter(text.replace("V.", "payload.")),
    )
    one = event("s", 0, 0)
    payloads: list[Any] = [{"v": v, "in": w, "type": "x", "a b": v} for v in VALUES for w in VALUES]
    for payload in [*payloads, {}, None, 3, b"{"]:
        assert holds(one, payload) is (test(Entry(one, payload)) is True)


def test_type_and_source_are_the_events() -> None:
    holds = compile_filter("type = 'A' AND source LIKE 's%' AND payload.type = 'B'")
    one = event("s1", 0, 0)
    one.type = "A"
    assert holds(one, {"type": "B"})
    assert not holds(one, {"type": "A"})
    one.source = "t"
    assert not holds(one, {"type": "B"})


def test_events_left_out_are_counted() -> None:
    windows = Windows("default", config_of("tumbling", keyed=True, where=LARGE))
    payloads = [{"key": 1, "v": 1}, {"key": 1, "v": 0}, {"v": 1}, {"key": 1}, None]
    windows.on_batch([event("s", seq, seq, each) for seq, each in enumerate(payloads)], START)
    figures = windows.figures()
    assert (figures["filtered"], figures["without_key"], figures["skipped"]) == (3, 1, 0)


REFUSED = {
    "t > 80": "write payload.t for a field",
    "payload.t > ": "the end of the text where a value is expected",
    "a.t > 3": "`a` is not the event of a filter",
    "payload[1].t > 3": "write a path like payload.t",
    "[t]": "a filter sees one",
    "count(payload) > 3": "a filter sees one",
    "prev(payload.t) > 3": "a filter sees one",
    "own(payload.t) > 3": "`own` is not a function of a filter",
    "payload.t + 1": "is not a condition",
    "payload.t > 3 WITHIN 5 s": "`WITHIN` where nothing is expected",
    "payload.t > 3; payload.x": "a condition is one expression",
    "payload.t = NULL": "write IS NULL",
    "NULL": "this condition never holds",
    "(" * 200 + "payload.t > 3" + ")" * 200: "shorten it",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("of_query", [True, False], ids=["query", "aggregate"])
def test_other_conditions_are_refused(text: str, of_query: bool) -> None:
    where = f'aggregate: {{n: "count() where {text}"}}'
    if of_query:
        where = f'where: "{text}", aggregate: {{n: count()}}'
    with pytest.raises(TopologyError, match=REFUSED[text]):
        parse(f"streams: {{default: {{}}}}\nqueries: {{q: {{window: tumbling 1s, {where}}}}}")


def test_only_windows_have_a_filter() -> None:
    with pytest.raises(TopologyError, match="belongs to a window"):
        parse(
            "streams: {default: {}}\n"
            "queries: {q: {pattern: PATTERN A WITHIN 1 s, where: payload.x > 1}}"
        )


def test_every_setting_changes_the_query() -> None:
    """A changed query starts afresh; spaces change nothing."""
    queries = (
        "window: tumbling 1d, aggregate: {n: count()}",
        "window: tumbling 1d in Europe/Berlin, aggregate: {n: count()}",
        "window: tumbling 1d in Europe/London, aggregate: {n: count()}",
        "window: tumbling 1d from 06:00, aggregate: {n: count()}",
        "window: tumbling 1w, aggregate: {n: count()}",
        "window: tumbling 7d, aggregate: {n: count()}",
        "window: tumbling 1d, key: payload.a, aggregate: {n: count()}",
        "window: tumbling 1d, key: [payload.a], aggregate: {n: count()}",
        "window: tumbling 1d, key: [payload.a, source], aggregate: {n: count()}",
        "window: tumbling 1d, where: payload.a > 1, aggregate: {n: count()}",
        "window: tumbling 1d, aggregate: {n: count() where payload.a > 1}",
        "window: tumbling 1d, aggregate: {n: count() where payload.a > 2}",
    )
    digests = [digest(each) for each in queries]
    assert len({*digests}) == len(queries)
    assert (
        digest(queries[-1].replace("() where payload.a > 2", "()   WHERE (payload.a>2)"))
        == digests[-1]
    )


def digest(query: str) -> str:
    return query_digest(parse(f"streams: {{default: {{}}}}\nqueries: {{q: {{{query}}}}}"), "q")
