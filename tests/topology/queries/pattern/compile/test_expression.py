"""Expressions: example tables of the three-valued logic, and laws over random expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.topology.queries.pattern.generate import Conditions, entry, random_payload
from topology.queries.pattern.compile import expression, values
from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.expression import Condition
from topology.queries.pattern.compile.scope import NO_ENVIRONMENT, Environment, Scope
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree import syntax
from topology.queries.pattern.tree.mentions import find_aliases

SLOTS = {"a": 0, "b": 1, "c": 2, "n": 3}
"""Slots of a single event, a group, an optional event and a negation."""
GROUPS = frozenset({1})
NAN = float("nan")
UNKNOWN = None


def where(text: str) -> syntax.Expr:
    pattern = "PATTERN SEQ(A a, B+ b[], C? c, !N n, D d)"
    query = parse_query(f"{pattern} WHERE {text} WITHIN 10 ns")
    assert query.where is not None
    return query.where


def entries(payloads: Sequence[Any], first: int = 0) -> list[Entry]:
    return [entry("T", first + at, first + at, payload) for at, payload in enumerate(payloads)]


def binding(
    a: Any = None, b: Sequence[Any] = (), c: Sequence[Any] = (), n: Sequence[Any] = ()
) -> Binding:
    return [entries([a]), entries(b, 10), entries(c, 20), entries(n, 30)]


def made(text: str, **params: Any) -> Condition:
    return expression.Condition(where(text), Scope(SLOTS, GROUPS, Environment(params)))


# -- one event --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "payloads"),
    [
        ("a.x = 1", {True: [1, 1.0], UNKNOWN: [True, "1", None, NAN, {}, [1]]}),
        ("a.x != 1", {UNKNOWN: ["1", NAN]}),
        ("a.x > 2", {True: [math.inf, 10**400]}),
        ("a.x + 0.5 > 2", {UNKNOWN: [10**400]}),
        ("a.x * a.x > 2", {UNKNOWN: [10**400]}),
        ("a.x * 2 > 2", {True: [1e308]}),
        ("a.x - a.x = 0", {UNKNOWN: [math.inf]}),
        ("2 > a.x", {True: [1]}),
        ("a.x < TRUE", {UNKNOWN: [False]}),
        ("a.x = TRUE", {True: [True]}),
        ("a.x", {True: [True], UNKNOWN: [1]}),
        ("NOT a.x", {True: [False]}),
        ("a.x = NULL", {UNKNOWN: [None]}),
        ("a.x IS NULL", {True: [NAN]}),
        ("a.x IS NOT NULL", {True: [0]}),
        ("a.x / a.y = 2", {True: [{"x": 4, "y": 2}]}),
        ("a.x / a.y = 0.5", {True: [{"x": 1, "y": 2}]}),
        ("a.x / a.y = 1", {UNKNOWN: [{"x": 1, "y": 0}, {"x": 1.0, "y": 0.0}]}),
        ("a.x % a.y = -1", {True: [{"x": -7, "y": 3}, {"x": -7.0, "y": 3}]}),
        ("a.x % a.y = 1", {True: [{"x": 7, "y": -3}]}),
        ("a.x % a.y = 1", {UNKNOWN: [{"x": 7, "y": 0}, {"x": math.inf, "y": 2}]}),
        ("a.x + a.y = 3", {UNKNOWN: [{"x": 1, "y": "2"}, {"x": "1", "y": "2"}]}),
        ("a.x + a.y = 2", {UNKNOWN: [{"x": True, "y": True}]}),
        ("-a.x = -1", {True: [1], UNKNOWN: ["1"]}),
        ("a.x IN (1, 'a')", {True: [1], UNKNOWN: [3]}),
        ("a.x NOT IN (1, 2)", {True: [3]}),
        ("a.x NOT IN (1, NULL)", {UNKNOWN: [3], False: [1]}),
        ("a.x BETWEEN 1 AND a.y", {False: [{"x": 0, "y": None}], UNKNOWN: [{"x": 2, "y": None}]}),
        ("a.x LIKE 'a%c'", {True: ["abc"], UNKNOWN: [5]}),
        ("abs(a.x) = 3", {True: [-3]}),
        ("sqrt(a.x) = 3", {True: [9], UNKNOWN: [-9]}),
        ("sqrt(a.x) > 3", {UNKNOWN: [10**700]}),
        ("lower(a.x) = 'ab'", {True: ["AB"]}),
        ("upper(a.x) = 'AB'", {UNKNOWN: [3]}),
        ("length(a.x) = 2", {True: ["ab"]}),
        ("coalesce(a.x, a.y, 3) = 3", {True: [{"x": None, "y": NAN}]}),
        ("a.x > 1 OR a.y > 1", {True: [{"x": None, "y": 2}], UNKNOWN: [{"x": None, "y": 0}]}),
        ("NOT (a.x > 1 AND a.y > 1)", {True: [{"x": None, "y": 0}]}),
        ("NOT (a.x > 1 AND a.y > 1)", {UNKNOWN: [{"x": None, "y": 2}]}),
        ("a.p.q.r = 1", {True: [{"p": {"q": {"r": 1}}}], UNKNOWN: [{"p": {"q": 1}}]}),
        ("a.payload.time = 5", {True: [{"time": 5}]}),
        ("a.time = 0", {True: [{"time": 5}]}),
        ("a.time.x = 0", {UNKNOWN: [{"time": {"x": 0}}]}),
        ("a.source = 's' AND a.seq = 0 AND a.type = 'T'", {True: [{}]}),
        ("a.ts = 0 AND a.error = 0", {True: [{}]}),
        ("a.x < top", {True: [1]}),
        ("a.x < $top * 2", {True: [9]}),
    ],
)
def test_condition_on_one_event(text: str, payloads: dict[bool | None, list[Any]]) -> None:
    """Each payload gives its truth value; one that is not a dict stands for its `x`."""
    condition = made(text, top=5)
    alone = expression.compile_own_test([where(text)], "a", Environment({"top": 5}))
    for held, each in payloads.items():
        for payload in each:
            bound = binding(payload if isinstance(payload, dict) else {"x": payload})
            assert condition.holds(bound) is held, payload
            assert condition.holds_newest(bound, 0) is held, payload
            assert alone(bound[0][0]) is held, payload


@pytest.mark.parametrize("payload", [None, [1]])
def test_payload_without_fields_is_unknown(payload: Any) -> None:
    assert made("a.x = 1").holds(binding(payload)) is UNKNOWN


def test_time_differences_are_exact() -> None:
    late = (1 << 62) - 1
    two: Binding = [[entry("A", late - 1, 0)], [], [entry("C", late, 1)], []]
    assert made("c.time - a.time = 1 ns").holds(two) is True
    assert made("c.time - a.time > 1 ns").holds(two) is False


def test_conjuncts_of_one_alias_are_combined() -> None:
    both = expression.compile_own_test([where("a.x > 1"), where("a.y > 1")], "a")
    rows = entries([{"x": x, "y": y} for x, y in ((2, 2), (None, 2), (None, 0))])
    assert [both(one) for one in rows] == [True, UNKNOWN, False]
    assert expression.compile_own_test([], "a")(entries([None])[0]) is True


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("", "", True), ("", "a", False), ("%", "", True), ("%%", "abc", True),
        ("a%", "abc", True), ("%c", "abc", True), ("%b%", "abc", True), ("a%b%c", "abbc", True),
        ("a_c", "abc", True), ("a_c", "ac", False), ("_", "ab", False), ("a%a", "a", False),
        ("%ab%ab%", "abab", True), ("%ab%ab%", "ab", False), ("%_b", "ab", True),
        ("A%", "abc", False), ("a.c", "abc", False), ("%a", "aba", True), ("a%", "\na", False),
    ],
)  # fmt: skip
def test_like_matches_whole_text(pattern: str, text: str, fits: bool) -> None:
    assert values.compile_like(pattern)(text) is fits


def test_like_is_fast_on_mismatch() -> None:
    assert values.compile_like("%a" * 50 + "%b")("a" * 5_000) is False


# -- groups -----------------------------------------------------------------------------------


def xs(*numbers: Any) -> list[Any]:
    return [{"x": number} for number in numbers]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("b.x > 1", {(2, 3): True, (2, 1): False, (2, None): UNKNOWN, (None, 1): False}),
        ("NOT b.x = 1", {(1, 2): False}),
        ("b.x > 1", {(): UNKNOWN}),
        ("b.x IS NULL", {(): True}),
        ("b[i].x IS NULL", {(): True}),
        ("b[1].x IS NULL", {(): True}),
        ("d.x IS NULL", {(): True}),  # `d` belongs to another branch.
        ("b[i].x > b[i-1].x", {(1,): True, (1, 2, 3): True}),
        ("b[i].x > b[i-1].x", {(1, 3, 2): False, (1, None, 3): UNKNOWN}),
        ("b[i+2].x > b[i].x", {(1, 9): True, (1, 9, 1): False}),
        ("b[i+1].x > b[i+2].x", {(2, 1): True, (1, 2): False}),
        ("b[first].x = 1 AND b[1].x = 1", {(1, 2): True}),
        ("b[last].x = 2 AND b[-1].x = 2 AND b[-2].x = 1", {(1, 2): True}),
        ("b[-3].x > 0", {(1, 2): UNKNOWN}),
        ("b[3].x IS NULL", {(1, 2): True}),
        ("count(b) = 3", {(1, None, 3): True}),
        ("count(b[].x) = 2", {(1, None, 3): True}),
        ("sum(b[].x) = 4", {(1, None, 3): True, (1, "a", 3): True}),
        ("sum(b[].x) IS NULL", {(None,): True}),
        ("sum(b[].x) = 0.6", {(0.1, 0.2, 0.3): True}),
        ("sum(b[].x) = 0", {(math.inf, -math.inf): UNKNOWN}),
        ("sum(b[].x) > 0", {(1e308, 1e308): UNKNOWN, (10**400, 0.5): UNKNOWN}),
        ("avg(b[].x) = 2", {(1, 3): True}),
        ("avg(b[].x) = 1.5", {(1, 2): True}),
        ("min(b[].x) = 1 AND max(b[].x) = 3", {(2, 1, NAN, 3): True}),
        ("max(b[].x) = 'b'", {("a", "b"): True, ("a", 1): UNKNOWN}),
        ("stddev(b[].x) = 1", {(1, 3): True}),
        ("stddev(b[].x) > 0", {(1e308, -1e308): True}),
        ("b[i].x > avg(b[..i-1].x)", {(1, 2, 3): True, (1, 3, 2): False, (1,): True}),
        ("b[i].x >= max(b[..i].x)", {(1, 2, 2): True, (2, 1): False}),
        ("sum(b[..i-2].x) < 4", {(1, 2, 9, 9): True, (1, 2, 9, 9, 9): False}),
        ("b.x <= 2 OR b[i].x > b[i-1].x", {(3, 4): True}),
    ],
)  # fmt: skip
def test_condition_holds_for_group(text: str, groups: dict[tuple[Any, ...], bool | None]) -> None:
    """Numbers are the `x` of the group's elements."""
    condition = made(text)
    for group, held in groups.items():
        assert condition.holds(binding({}, xs(*group))) is held, group


def test_holds_newest_checks_newest_only() -> None:
    condition = made("b[i].x > b[i-1].x")
    assert condition.holds_newest(binding({}, xs(3, 1, 2)), 1) is True
    assert condition.holds_newest(binding({}, xs(1, 3, 2)), 1) is False
    assert condition.holds_newest(binding({}, xs(1)), 1) is True
    assert condition.holds_newest(binding({}, xs(3, 1)), 0) is True
    assert made("b.x > a.x").holds_newest(binding({"x": 1}, xs(0, 2)), 1) is True
    assert made("b.x > a.x").holds_newest(binding({"x": 1}, xs(0, 2)), 0) is False
    assert made("b[1].x > a.x").holds_newest(binding({"x": 1}, xs(0, 2)), 1) is True


def test_negation_sees_each_element() -> None:
    held = [made("n.x > b.x").holds(binding({}, xs(1, x), n=xs(3))) for x in (2, 4)]
    assert held == [True, False]


def test_until_ignores_missing_index() -> None:
    ends = expression.Condition(where("b[i].x < b[i-1].x"), Scope(SLOTS, GROUPS), vacuous=None)
    assert ends.holds_newest(binding({}, xs(1)), 1) is None
    assert ends.holds_newest(binding({}, xs(1, 2)), 1) is False
    assert ends.holds_newest(binding({}, xs(1, 0)), 1) is True
    alone = expression.Condition(where("b.x > 2"), Scope(SLOTS, GROUPS), vacuous=None)
    assert [alone.holds_newest(binding({}, xs(9, x)), 1) for x in (1, 3)] == [False, True]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("b.x > 1", False), ("b[1].x > 1", False), ("b[i].x > b[i-1].x", False),
        ("sum(b[..i-1].x) > 1", False), ("sum(b[].x) > 1", True), ("b[last].x > 1", True),
        ("b[2].x > 1", True), ("count(c) = 1", False),
    ],
)  # fmt: skip
def test_condition_may_need_whole_group(text: str, whole: bool) -> None:
    assert made(text).needs_whole is whole


def test_or_can_contain_an_equivalence() -> None:
    condition = made("[x, y] OR a.z = 1")
    same = {"x": 1, "y": 2}
    assert condition.holds(binding(same, [same, {"x": 1.0, "y": 2}])) is True
    assert condition.holds(binding(same, [same, {"x": 1, "y": 3}])) is UNKNOWN
    assert condition.holds(binding({**same, "z": 0}, [{"x": 1, "y": 3}])) is False


# -- users' functions, columns, keys ----------------------------------------------------------


def value(text: str, given_: Binding, environment: Environment = NO_ENVIRONMENT) -> Any:
    query = parse_query(f"PATTERN SEQ(A a, B+ b[], C? c) WITHIN 1 ns RETURN {text} AS v")
    assert query.columns is not None
    scope = Scope(SLOTS, GROUPS, environment)
    return expression.value(query.columns[0].expr, scope)(given_)


def test_column_values_come_from_match() -> None:
    given_ = binding({"x": 1, "o": {"p": [1]}}, xs(1, 2, NAN))
    assert value("a.x + 1", given_) == 2
    assert value("a.o", given_) == {"p": [1]}
    assert value("b.x", given_) == [1, 2, None]
    assert value("b[i].x - b[i-1].x", given_) == [1, None]
    assert value("b[last].time - a.time", given_) == 12
    assert value("count(b[])", given_) == 3
    assert value("c.x", given_) is None
    assert value("b.x", binding({})) == []


def test_user_functions_are_called() -> None:
    """A function that raises an error gives NULL."""
    functions = {"twice": lambda x: 2 * x, "bad": lambda x: x / 0}
    given_, environment = binding({"x": 4}), Environment(functions=functions)
    assert value("twice(a.x)", given_, environment) == 8
    assert value("bad(a.x)", given_, environment) is None
    condition = expression.Condition(where("bad(a.x)"), Scope(SLOTS, GROUPS, environment))
    assert condition.holds(given_) is UNKNOWN


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="function thrice"):
        made("thrice(a.x)")
    with pytest.raises(ValueError, match="top"):
        made("a.x > top")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True), (1, True, False), ("1", 1, False), (0.0, -0.0, True),
        (2**70, 2.0**70, True), (True, True, True), (1.5, 1.5, True), ("a", "a", True),
        (math.inf, math.inf, True),
    ],
)  # fmt: skip
def test_partition_keys_compare_as_values(one: Any, other: Any, same: bool) -> None:
    key = expression.partition([("x",)])
    keys = [key(each) for each in entries(xs(one, other))]
    assert (keys[0] == keys[1]) is same
    if same:
        assert repr(keys[0]) == repr(keys[1])


@pytest.mark.parametrize("x", [None, NAN, [1], {"a": 1}])
def test_null_is_no_partition_key(x: Any) -> None:
    assert expression.partition([("id",), ("x",)])(entries([{"id": 1, "x": x}])[0]) is None


# -- laws -------------------------------------------------------------------------------------

NODES = (
    syntax.EventNode(("A",), "a"),
    syntax.EventNode(("B",), "b", 1, syntax.UNBOUNDED),
    syntax.EventNode(("C",), "c", 1, syntax.UNBOUNDED),
)
LAW_GROUPS = frozenset({1, 2})


@given(st.integers(0, 2**32))
def test_law_holds_follows_from_each_event(seed: int) -> None:
    """Law: `holds` is true if `holds_newest` was true at every event since all slots were bound."""
    rng = Random(seed)
    expr = Conditions(rng, NODES, ["n"] if rng.random() < 0.3 else []).conjunct()
    condition = expression.Condition(expr, Scope(SLOTS, LAW_GROUPS))
    if condition.needs_whole:
        return
    named = {SLOTS[alias] for alias in find_aliases(expr)}
    slots = [0, *[1] * rng.randint(1, 3), *[2] * rng.randint(1, 3), 3]
    rng.shuffle(slots)
    bound: Binding = [[], [], [], []]
    every = True
    for time, slot in enumerate(slots):
        bound[slot] = [*bound[slot], entry("T", time, time, random_payload(rng))]
        if all(bound[each] for each in named):
            held = condition.holds_newest(bound, slot)
            every = every and held is True
            assert (condition.holds(bound) is True) is every


ANY_VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from([10**400, -(10**400), math.inf, -math.inf, 1e308, [], {}]),
)  # fmt: skip


@pytest.mark.slow
@given(ANY_VALUE, ANY_VALUE, st.sampled_from(sorted(values.OPERATIONS)))
def test_arithmetic_never_raises(a: Any, b: Any, sign: str) -> None:
    result = values.apply_operation(values.OPERATIONS[sign], a, b)
    assert result is None or (values.is_number(result) and not math.isnan(float(result)))


@given(ANY_VALUE, ANY_VALUE)
def test_comparisons_agree_with_each_other(a: Any, b: Any) -> None:
    a, b = values.null_if_nan(a), values.null_if_nan(b)
    equal = values.compare("=", a, b)
    assert equal is values.compare("=", b, a)
    assert values.compare("!=", a, b) is (None if equal is None else not equal)
    less, greater = values.compare("<", a, b), values.compare(">", a, b)
    assert greater is values.compare("<", b, a)
    if less is not None:
        assert [less, equal, greater].count(True) == 1


@given(st.lists(ANY_VALUE, max_size=5), st.sampled_from(sorted(values.AGGREGATES)), st.randoms())
@example([8e307, 1e308, math.inf], "avg", Random(1))
@example([1e308, 1e308, -1e308], "sum", Random(1))
def test_aggregates_ignore_order(group: list[Any], name: str, rng: Random) -> None:
    """Aggregates never raise, and never give NaN."""
    reduce = values.AGGREGATES[name]
    known = [values.null_if_nan(one) for one in group]
    result = reduce(known)
    assert not (isinstance(result, float) and math.isnan(result))
    mixed = list(known)
    rng.shuffle(mixed)
    assert reduce(mixed) == result


@given(st.lists(st.sampled_from([True, False, None]), max_size=4))
def test_and_or_are_dual(parts: list[bool | None]) -> None:
    constants = [syntax.Constant(part) for part in parts]
    either = syntax.Or(tuple(map(syntax.Not, constants)))
    both, neither = (
        expression.Condition(expr, Scope({})).holds([])
        for expr in (syntax.And(tuple(constants)), syntax.Not(either))
    )
    assert values.all_of(parts) is both is neither
