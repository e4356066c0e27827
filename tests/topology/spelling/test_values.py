"""Examples: values in code pass the checks of their text, and their remedies are in Python."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from topology.config import (
    Aggregate,
    JoinCondition,
    JoinedValue,
    JoinQuery,
    MergeConfig,
    PatternQuery,
    QualityConfig,
    ReorderConfig,
    SideConfig,
    StageConfig,
    StreamConfig,
    Topology,
    TopologyError,
    Window,
    WindowQuery,
    parse,
    pattern,
)
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.tree.errors import QueryRefused
from topology.spelling.problem import make_refusal

S_NS = 10**9
V = ("payload", "v")
COUNT = {"n": Aggregate("count")}
SIDES = {"a": SideConfig(type="A"), "b": SideConfig(type="B")}


def window(*value: Any) -> Callable[[], WindowQuery]:
    return lambda: WindowQuery(window=Window(*value), aggregate=COUNT)


def aggregate(*value: Any) -> Callable[[], WindowQuery]:
    wanted = {"x": Aggregate(*value)}
    return lambda: WindowQuery(window=Window("tumbling", S_NS), aggregate=wanted)


def join(*value: Any) -> Callable[[], JoinQuery]:
    return lambda: JoinQuery(join=JoinCondition(*value), sides=SIDES)


def joined(*value: Any) -> Callable[[], JoinQuery]:
    values = {"x": JoinedValue(*value)}
    return lambda: JoinQuery(join=JoinCondition("interval"), sides=SIDES, values=values)


def stages(*value: Any) -> Callable[[], Topology]:
    return lambda: Topology(streams={"default": StreamConfig()}, stages_written=value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (window("tumblin", S_NS), "1000000000ns` is not a window; did you mean `tumbling`"),
        (window("tumbling", 0.5), "is not a whole number; write a whole number of ns or events"),
        (join("interval", -5.0, 5), "`-5.0` is not a whole number"),
        (window("tumbling", S_NS, 1), "1ns` is not a tumbling window; write it like tumbling"),
        (window("session", 10**20), "is too large"),
        (window("session", 9 * 10**18), "is longer than 100 years"),
        (window("sliding", S_NS, 1), "each event would be in more than 10000 windows"),
        (window("count"), "`0ns` is not a number of events; write it like count 100"),
        (window("count", S_NS, 0, 5), "5` is not a count window; write it like count 100"),
        (aggregate("sum", "payload.v"), "`payload.v` is text, not a path; write the path"),
        (aggregate("sum", ("payload.v",)), "write sum(payload.v)"),
        (aggregate("sum", 3), "`path 3` is not a path"),
        (aggregate("mine"), "`mine` takes 1 arguments, not 0"),
        (aggregate("quantile", V, -1), "`-0.000001` is not a quantile between 0 and 1"),
        (aggregate("quantile", V, 1_000_001), "`1.000001` is not a quantile between 0 and 1"),
        (aggregate("quantile", V, 1.5), "`1.5 millionths` is not a quantile between 0 and 1"),
        (aggregate("avg", V, 5), "`avg` takes 1 arguments, not 2"),
        (aggregate(3), "`3` is not an aggregate"),
        (join("intervall"), "is not a join; did you mean `interval`?"),
        (join("interval", 0, 9 * 10**18), "is more than 100 years"),
        (join("interval", 0, 1, 2), "is not a join by interval"),
        (join("tumbling", 0, 0, 4, 2), "every 2ns` is not a join by tumbling"),
        (join("tumbling", 1, 2, 4), "is not a join by tumbling"),
        (joined("a", "payload.v"), "`a.path payload.v` is not a value of a side"),
        (joined("a", ("v",)), "`a.v` is not a value of a side; write it like"),
        (joined(1, V), "`1.payload.v` is not a value of a side"),
        (joined("c", V), "there is no side `c`"),
        (stages(StageConfig(3)), "a list is not the name of a stage"),  # type: ignore[arg-type]
        (partial(ReorderConfig, max_wait_ns=1.5e9), "a whole number of ns"),  # type: ignore[arg-type]
        (partial(ReorderConfig, max_wait_ns=-1), "write one from 0 to"),
        (partial(QualityConfig, accuracy_ppm=1_000_000), "out of range"),
    ],
)
def test_bad_value_is_refused_like_text(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make()
    assert said in str(refused.value)


def test_message_hides_internals() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: WindowQuery(window=Window("tumbling", S_NS), aggregate={}),
        lambda: WindowQuery(window="tumblin 1s", aggregate={"n": 3}),  # type: ignore[dict-item, arg-type]
        lambda: MergeConfig(max_wait_ns=1.5),  # type: ignore[arg-type]
        lambda: QualityConfig(max_wait_ns=0),
        lambda: Topology(streams={}),
        lambda: Topology(streams={"default": StreamConfig()}, redis="redis:/:secret@host"),
    ]
    for make in wrong:
        with pytest.raises(ValidationError) as refused:
            make()
        said = str(refused.value)
        for internal in ("Fault(", "input_value", "secret", "{n:", "{default:", "wait:"):
            assert internal not in said


def test_text_and_values_mean_the_same() -> None:
    said = """
streams: {default: {}}
stages: [reorder+merge, window, join]
queries:
  w: {window: sliding 4s every 2s, aggregate: {q: "quantile(payload.v, 0.99)", n: count()}}
  c: {window: count 5, aggregate: {s: sum(payload)}}
  s: {window: session 1.5ms, aggregate: {m: avg( payload.a.b )}}
  f: {window: tumbling 10s, aggregate: {n: count()}}
  t: {join: tumbling 2s, sides: {a: {type: A}, b: {type: B}}, values: {v: a.payload.v}}
"""
    wanted = {"q": Aggregate("quantile", V, 990_000), "n": Aggregate("count")}
    condition = JoinCondition("tumbling", size_ns=2 * S_NS)
    assert parse(said) == Topology(
        streams={"default": StreamConfig()},
        stages_written=[  # type: ignore[arg-type]
            StageConfig(("reorder", "merge")),
            StageConfig(("window",)),
            "join",
        ],
        queries={
            "w": WindowQuery(window=Window("sliding", 4 * S_NS, 2 * S_NS), aggregate=wanted),
            "c": WindowQuery(
                window=Window("count", events=5), aggregate={"s": Aggregate("sum", ("payload",))}
            ),
            "s": WindowQuery(
                window=Window("session", 1_500_000),
                aggregate={"m": Aggregate("avg", ("payload", "a", "b"))},
            ),
            "f": WindowQuery(window=Window("tumbling", 10 * S_NS), aggregate=COUNT),
            "t": JoinQuery(join=condition, sides=SIDES, values={"v": JoinedValue("a", V)}),
        },
    )


def test_topology_survives_a_dump() -> None:
    topology = Topology(
        streams={"default": StreamConfig()},
        stages_written=(StageConfig(("reorder", "merge")), StageConfig(("window",))),
        queries={
            "w": WindowQuery(window=Window("session", S_NS), aggregate={"s": Aggregate("sum", V)}),
            "p": PatternQuery(pattern=pattern("PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 1 s")),
            "j": JoinQuery(
                join=JoinCondition("interval", -1, 1),
                sides=SIDES,
                values={"v": JoinedValue("a", V)},
            ),
        },
    )
    assert Topology(**dict(topology)) == topology
    assert Topology(**topology.model_dump()) == topology
    assert Topology.model_validate_json(topology.model_dump_json()) == topology
    changed = Topology(**{**dict(topology), "checkpoint_ns": 5})
    assert (changed.checkpoint_ns, changed.queries) == (5, topology.queries)


def test_misplaced_default_is_refused() -> None:
    said = 'streams: {default: {}}\nqueries: {p: {pattern: "PATTERN A a WITHIN 1 s", early: 0s}}'
    with pytest.raises(ValueError, match="early.*belongs to a window"):
        parse(said)


def test_parameter_is_refused() -> None:
    """A topology gives parameters no values, so the pattern is refused before events arrive."""
    text = "PATTERN SEQ(D d, R r) WHERE r.x > $least WITHIN 1 s"
    with pytest.raises(QueryRefused, match=r"`\$least` has no value"):
        pattern(text)
    with pytest.raises(ValidationError, match=r"`\$least` has no value"):
        PatternQuery(pattern=parse_query(text))


@pytest.mark.parametrize("share", ["0", "1", "0.000001", "0.5", ".999999"])
def test_quantile_is_read_back(share: str) -> None:
    said = f"{{window: tumbling 1s, aggregate: {{q: 'quantile(payload.v, {share})'}}}}"
    topology = parse(f"streams: {{default: {{}}}}\nqueries: {{w: {said}}}")
    assert topology.queries_of(WindowQuery)["w"].aggregate == {
        "q": Aggregate("quantile", V, _ppm(share))
    }
    assert Topology.model_validate(topology.model_dump()) == topology
    aggregate("quantile", V, _ppm(share))()


def _ppm(share: str) -> int:
    return int(Decimal(share) * 1_000_000)


def test_quoted_flag_is_refused() -> None:
    with pytest.raises(ValueError, match="`true` is not known here; write true, without quotes"):
        parse({"streams": {"default": {}}, "watermark": "true"})
    for said, remedy in (("true", "write True, without"), ("no", "write one of: True, False")):
        with pytest.raises(ValidationError, match=remedy):
            Topology(streams={"default": StreamConfig()}, watermark=said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("remedy", "in_code"),
    [
        ("write answer: early, or [a, b]", "write answer='early', or ['a', 'b']"),
        ("leave it out, or write a: {b: c} beside", "leave it out, or write a={'b': 'c'} beside"),
        ("write at least one, like {n: count()}", "write at least one, like {'n': 'count()'}"),
        ("write b.x, `[lim]` or `a: b` if all agree", "write b.x, `[lim]` or `a: b` if all agree"),
        ("join them: merge+window", "join them: merge+window"),
        ("ask for what all agree on, like [room]", "ask for what all agree on, like [room]"),
        ("write one of: true, false", "write one of: true, false"),
    ],
)
def test_remedy_in_code_is_python(remedy: str, in_code: str) -> None:
    assert str(make_refusal("wrong", remedy)) == f"wrong; {in_code}"


def test_remedy_of_a_pattern_is_unchanged() -> None:
    said = "PATTERN SEQ(A+ a[], B b) WHERE a[lim].x > 1 AND b[2:1].x = 1 WITHIN 5 s"
    with pytest.raises(ValidationError) as in_code:
        PatternQuery(pattern=said)  # type: ignore[arg-type]
    with pytest.raises(TopologyError) as in_file:
        parse({"streams": {"default": {}}, "queries": {"q": {"pattern": said}}})
    assert all(problem.remedy in str(in_code.value) for problem in in_file.value.problems)
