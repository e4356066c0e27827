"""Example tables for joins in the topology file: what is read, and what is refused."""

from __future__ import annotations

import pytest

from tests.kit.topologies import in_code
from tests.topology.spelling.test_problem import assert_refused
from topology.config import JoinCondition, JoinedValue, JoinQuery, QualityConfig, parse
from topology.config.resolved import resolve_query

S = 1_000_000_000
BASE = """\
streams: {pitch: {}, video: {}, sound: {}}
queries:
  seen:
    sides: {shot: {stream: pitch, type: Shot}, frame: {stream: video}}
"""
JOIN = f"{BASE}    join: interval 2s\n"
SIDELESS = "streams: {a: {}, b: {}}\nqueries:\n  q:\n    join: tumbling 1s\n    "
OF_BOTH = "sides: {x: {stream: a}, y: {stream: b}}"


@pytest.mark.parametrize(
    ("spelling", "condition"),
    [
        ("interval 2s", JoinCondition("interval", -2 * S, 2 * S)),
        ("interval 0s", JoinCondition("interval", 0, 0)),
        ("interval -1s to 2s", JoinCondition("interval", -S, 2 * S)),
        ("interval 1s to 2s", JoinCondition("interval", S, 2 * S)),
        ("interval -2s to -1s", JoinCondition("interval", -2 * S, -S)),
        ("as_of 10s", JoinCondition("as_of", size_ns=10 * S)),
        ("tumbling 10s", JoinCondition("tumbling", size_ns=10 * S, every_ns=10 * S)),
        ("sliding 10s every 2s", JoinCondition("sliding", size_ns=10 * S, every_ns=2 * S)),
    ],
)
def test_join_conditions_are_read(spelling: str, condition: JoinCondition) -> None:
    assert parse(f"{BASE}    join: {spelling}\n").queries_of(JoinQuery)["seen"].join == condition


def test_settings_reach_the_operator() -> None:
    topology = in_code(
        f"{JOIN}"
        "    key: payload.ball\n"
        "    outer: left\n"
        "    values: {speed: shot.payload.v, all: frame.payload}\n"
        "    max_rows: 7\n"
        "    quality: {accuracy: 90%, max_wait: 3s}\n"
    )
    query = resolve_query(topology, "seen", topology.queries_of(JoinQuery)["seen"])
    assert query.values == {
        "speed": JoinedValue("shot", ("payload", "v")),
        "all": JoinedValue("frame", ("payload",)),
    }
    assert (query.aliases, query.streams) == (["shot", "frame"], ["pitch", "video"])
    assert (query.types, query.key_paths) == (["Shot", ""], [("ball",), ("ball",)])
    assert query.fields == [("speed", 0, ("v",)), ("all", 1, ())]
    assert query.join == JoinCondition("interval", -2 * S, 2 * S)
    assert (query.outer, query.max_rows) == ("left", 7)
    assert query.quality == QualityConfig(
        accuracy_ppm=900_000, max_wait_ns=3 * S, idle_ns=2 * S, max_sources=200_000
    )


def test_side_can_have_its_own_key() -> None:
    topology = parse(
        "streams: {only: {}}\nqueries:\n  q: {join: tumbling 1s, key: payload.x,"
        " sides: {a: {type: A}, b: {type: B, key: payload.y}}}"
    )
    query = resolve_query(topology, "q", topology.queries_of(JoinQuery)["q"])
    assert (query.streams, query.key_paths) == (["only", "only"], [("x",), ("y",)])


def test_joined_streams_share_partition_name() -> None:
    more = "  other: {join: tumbling 1s, sides: {a: {stream: video}, b: {stream: sound}}}\n"
    assert [parse(JOIN).partition_name_of(name) for name in ("pitch", "video", "sound")] == [
        "pitch",
        "pitch",
        "sound",
    ]
    assert {parse(JOIN + more).partition_name_of(name) for name in ("pitch", "video", "sound")} == {
        "pitch"
    }


CONDITIONS = [
    ("interval", "write it like interval -1s to 2s"),
    ("interval 2", "has no unit"),
    ("interval 2s to 1s", "ends before it begins"),
    ("sliding 1s", "write it like sliding 10s every 2s"),
    ("sliding 1s every 2s", "at most the size"),
    ("tumbling 0s", "is not a length"),
    ("tumblin 1s", "did you mean `tumbling`?"),
    ("session 1s", "interval, as_of, tumbling, sliding"),
    ("as_of", "write it like as_of 10s"),
    ("as_of 0s", "is not a length"),
    ("as_of -1s", "is not a number with a unit"),
]
SIDES = [
    ("stream: a", ".sides", "is missing; add it; write sides: {a: {stream: one}"),
    ("sides: [a, b]", ".sides", "is not a mapping"),
    ("sides: {x: {stream: a}}", ".sides", "2 to 8 sides, not 1"),
    ("sides: {1: {stream: a}, b: {stream: b}}", ".sides", "begin the name with a letter"),
    ("sides: {x: {}, y: {stream: b}}", ".sides.x", "write stream: a"),
    ("sides: {x: {stream: aa}, y: {stream: b}}", ".sides.x.stream", "did you mean `a`?"),
    (
        "sides: {x: {stream: a, key: payload.k}, y: {stream: b}}",
        ".sides.y",
        "has no key, but other sides have one",
    ),
]
MORE = [
    ("stream: pitch", ".stream", "has no effect on a join"),
    ("aggregate: {n: count()}", ".aggregate", "belongs to a window"),
    ("outer: right", ".outer", "inner, left, full"),
    ("uncertainty: thesis3", ".uncertainty", "ignore, expected or bounds"),
    ("values: {v: }", ".values.v", "has no value; write it like {speed: shot.payload.speed}"),
    ("values: {v: payload.v}", ".values.v", "shot.payload.speed"),
    (
        f"values: {{{', '.join(f'v{i}: shot.payload' for i in range(1_001))}}}",
        ".values",
        "1001 are too many; write at most 1000",
    ),
    ("values: {v: shott.payload.v}", ".values.v", "mean `shot`?"),
]
AS_OF = [
    ("sides: {x: {stream: a}, y: {stream: b}, z: {stream: b}}", ".sides", "a query for each furt"),
    (f"{OF_BOTH}\n    outer: full", ".outer", "write inner or left"),
    (f"{OF_BOTH}\n    uncertainty: bounds", ".uncertainty", "write ignore or expected"),
]
REFUSED = [
    *((f"{BASE}    join: {text}\n", "queries.seen.join", words) for text, words in CONDITIONS),
    *((f"{SIDELESS}{text}", f"queries.q{path}", words) for text, path, words in SIDES),
    *((f"{JOIN}    {text}\n", f"queries.seen{path}", words) for text, path, words in MORE),
    *(
        (f"{SIDELESS}{text}".replace("tumbling", "as_of"), f"queries.q{path}", words)
        for text, path, words in AS_OF
    ),
    (
        f"{JOIN}    answer: speculate\nstages: [reorder, merge, window+join]\n",
        "stages",
        "join them: merge+join",
    ),
    (
        JOIN.replace("video: {}", "video: {output: events.video}"),
        "queries.seen",
        "which have different outputs; write one `output` for them",
    ),
]


@pytest.mark.parametrize(("text", "path", "words"), REFUSED, ids=range(len(REFUSED)))
def test_bad_join_is_refused(text: str, path: str, words: str) -> None:
    assert_refused(text, path, words)
