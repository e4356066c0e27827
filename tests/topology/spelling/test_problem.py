"""Example table of broken topology files, each with path and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from topology.config import Problem, TopologyError, parse

MINIMAL = "streams: {default: {}}\n"


def refusal(source: Any) -> list[Problem]:
    with pytest.raises(TopologyError) as caught:
        parse(source)
    assert caught.value.problems
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return caught.value.problems


def assert_refused(text: str | bytes, path: str, words: str) -> None:
    problems = refusal(text)
    matching = [problem for problem in problems if problem.path == path]
    assert matching, problems
    assert any(words in str(problem) for problem in matching), matching
    assert all(problem.message and problem.remedy for problem in problems)
    assert all(len(str(problem)) < 800 for problem in problems)


QUERY = "streams: {a: {}, b: {}}\nqueries:\n  q:\n    "
ONE = "window: tumbling 1s\n    stream: a\n    "
TABLE = "{window: tumbling 1s, aggregate: {n: count()}, upsert: true}"
COUNTED = "aggregate: {n: count()}"
SPECULATING = f"{QUERY}{ONE}{COUNTED}\n    answer: speculate\n"

BROKEN: list[tuple[str | bytes, str, str]] = [
    ("", "", "the file is empty; write at least streams: {default: {}}"),
    ("streams: {a: {}}\n\tx: 1", "", "line 2"),
    ("a: 1\n---\nb: 2", "", "not YAML: but found another document"),
    ("streams: !!python/object:os.system {}", "", "not YAML: could not determine a constructor"),
    ("streams: {a: 2024-13-45}", "", "month must be in 1..12"),
    ("streams: !!timestamp x", "", "cannot be read"),
    ("streams: \x00", "", "not YAML"),
    (b"streams: \xff", "", "not UTF-8 text: byte 9 is 0xff"),
    ("[" * 20_000, "", "nested too deeply"),
    ("#" * 1_000_001, "", "the text has 1000001 characters; keep it below 1000000"),
    ("- streams", "", "a list is not a mapping; write keys with values"),
    ("streams", "", "`streams` is not a mapping"),
    ("streams: {a: {}, a: {}}", "streams.a", "appears here twice (line 1, column 18; first"),
    ("stream: {a: {}}", "stream", "there is no such key; did you mean `streams`?"),
    ("stages: [reorder+merge]", "streams", "is missing; add it; write at least streams"),
    ("1: 2\nstreams: {a: }", "[1]", "the key `1` is not text; write it in quotes"),
    ("streams:", "streams", "is empty; write at least one, like streams: {default: {}}"),
    ("streams: [a]", "streams", "a list is not a mapping; write streams: {default: {}}"),
    ("streams: {1: {}}", "streams[1]", "the name `1` is not text; write it in quotes"),
    ("streams: {on: {}}", "streams[1]", "the name true is not text; write it in quotes"),
    ('streams: {"": {}}', "streams.", "the name has 0 characters; use 1 to 249 characters"),
    (f"streams: {{{'x' * 250}: }}", f"streams.{'x' * 250}", "the name has 250 characters"),
    ("streams: {süd: {}}", "streams.süd", "is not printable ASCII"),
    ('streams: {"a.b": {x: 1}}', 'streams."a.b".x', "there is no such key"),
    ("streams: {a: 3}", "streams.a", "`3` is not a mapping; write keys with values, known: input"),
    (f"streams: {{a: {{output: {'x' * 250}}}}}", "streams.a.output", "that Kafka accepts"),
    ("streams: {a: {input: events.dead}}", "topics.dead", "input of stream `a`; give it another"),
    (
        "streams: {a: {}, b: {headers: {preset: cloudevents}}}\nstages: [reorder+merge]",
        "streams.b.headers",
        "differ from those of stream `a`, but both use `events.raw`",
    ),
    (
        "streams: {a: {}, b: {input: raw.b, headers: {ts_unit: ms}}}\nstages: [reorder, merge]",
        "streams.b.headers",
        "both use `events.sequenced`; write the same headers as for `a`, or fuse",
    ),
    (
        (
            "streams: {a: {}, b: {input: raw.b, headers: {ts_unit: ms}}}\n"
            "queries: {j: {join: interval 1s, sides: {x: {stream: a}, y: {stream: b}}}}"
        ),
        "streams.b.headers",
        "one task reads both; write the same headers as for `a`",
    ),
    (f"{MINIMAL}queries: {{a b: {TABLE}}}", "queries.a b", "`results.a b` is not a name"),
    (f"{MINIMAL}queries: {{windows: {TABLE}}}", "queries.windows", "is `topics.windows`"),
    (
        f"streams: {{a: {{input: results.q}}}}\nqueries: {{q: {TABLE}}}",
        "queries.q",
        "`results.q` is the input of stream `a`; give the query another name",
    ),
    (
        f"{QUERY}{ONE}{COUNTED}\n    uncertainty: bounds".replace("1s", "40ms"),
        "queries.q.window",
        "no event certainly belongs to a window of at most 40000000 ns; write one longer",
    ),
    (f"{SPECULATING}stages: [reorder+merge, window]", "stages", "join them: reorder+merge+window"),
    (
        f"{SPECULATING}stages: [reorder, merge, window+pattern]",
        "stages",
        "`window+pattern` has no merge; join them: merge+window",
    ),
]

TOP = [
    ("unsynced: trust", "unsynced", "write it under streams.<name>.clock"),
    ("clock: {unsynced: trust}", "clock", "write it under streams.<name>"),
    ("topics: {state: redis}", "topics.state", "write it at the top of the file"),
    ("checkpoint: 0ms", "checkpoint", "`0ms` is too small"),
    ("delivery: exactly-once", "delivery", "did you mean `exactly_once`?"),
    ("watermark: maybe", "watermark", "`maybe` is not known here; write one of: true, false"),
    ("topics: {partitions: 0}", "topics.partitions", "write one from 1 to 10000"),
    ("application: my app", "application", "use 1 to 150 of the characters"),
    ("redis: localhost", "redis", "write it like redis://127.0.0.1:6379/0"),
    ("stages: reorder", "stages", "`reorder` is not a list of stages; write [reorder, m"),
    ("stages: []", "stages", "`reorder` is missing; write [reorder, merge] or"),
    ("stages: [reorder, marge]", "stages[1]", "not an operator; did you mean `merge`?"),
    ("stages: [merge, reorder]", "stages[1]", "`reorder` comes after `merge`; keep the"),
    ("stages: [reorder+merge, merge]", "stages[1]", "appears here twice; name it once"),
    ("stages: [reorder+, merge]", "stages[0]", "is not an operator"),
    ("stages: [[[reorder]]]", "stages[0]", "a list is not the name of a stage"),
    ("topics: {gaps: events.late}", "topics.late", "is `topics.gaps` already"),
    ("checkpoint: 10s", "checkpoint", "not below transaction_timeout"),
]
"""Keys of the file, the path of a problem, and words of it."""

STREAM = [
    ("topic: x", "topic", "no such key; write one of: input, output,"),
    ("max_wait: 1s", "max_wait", "write it under streams.a.reorder or under streams.a.merge"),
    (
        "merge: {max_windows: 500}",
        "merge.max_windows",
        "did you mean `max_wait`? `max_windows` is a key under queries",
    ),
    ("input: a b", "input", "not a name that Kafka accepts for a topic; use 1"),
    ("input: ..", "input", "not a name that Kafka accepts"),
    ('input: ""', "input", "not a name that Kafka accepts"),
    ("input: 7", "input", "`7` is not text"),
    ("headers: {sig: ''}", "headers.sig", "printable ASCII characters"),
    ("headers: {sig: ts}", "headers.sig", "already means `ts`"),
    ("headers: {sig: refTs}", "headers.sig", "the output of the stages"),
    (
        "merge: {expected_sources: [a, 3, a, '']}",
        "merge.expected_sources[1]",
        "`3` is not text; write the name, in quotes",
    ),
    ("merge: {expected_sources: a}", "merge.expected_sources", "a list"),
    ("clock: {max_skew: 3}", "clock.max_skew", "write 3ppm"),
    ("clock: {max_skew: 2%}", "clock.max_skew", "write it like 100ppm"),
    ("clock: {max_skew: 10001ppm}", "clock.max_skew", "10000ppm or less"),
    ("output: events.raw", "output", "the input of stream `a`"),
    ("output: events.dead", "output", "`topics.dead` already"),
]
"""The same for keys of a stream."""

REORDER = [
    ("late: drop, late: side", "keep one of the two"),
    ("maxwait: 500ms", "did you mean `max_wait`?"),
    ("outputs: x", "`output` under streams.a?"),
    ("max_wait: 500", "`500` has no unit; write 500ms"),
    ("max_wait: '500'", "no unit; write 500ms"),
    ("max_wait: 0.5", "no unit; write 0.5ms"),
    ("max_wait: 5 sec", "unknown unit `sec`; write 5s; use one of"),
    ("max_wait: 5w", "unknown unit `w`; use one of: ns"),
    ("max_wait: 0.5ns", "not a whole number of ns"),
    ("max_wait: -5ms", "not a number with a unit"),
    ("max_wait: soon", "write it like 500ms"),
    ("max_wait: true", "true is not a number with"),
    ("max_wait: [1s]", "a list is not a number with"),
    ("max_wait: ", "has no value; write one, or leave"),
    ("max_wait: 300000d", "is too large; write at most"),
    ("max_wait: ٥ms", "not a number with a unit"),
    ("gap_memory: 0s", "too small; write more than 0"),
    ("rule: FIXED", "did you mean `fixed`?"),
    ("late: off", "false is not known here; write one of"),
    ("start: -1", "write auto, zero or the first sequence"),
    ("start: true", "true is not a start"),
    ("infer_restart: 1", "write one of: auto, true, false"),
    ("seq_bits: 7", "out of range; write one from 8 to"),
    ("seq_bits: 64", "write one from 8 to 63"),
    ("max_held: 0", "write one from 1 to"),
    ("max_held: 1.0", "`1.0` is not a whole number"),
    ("max_held: true", "true is not a whole number"),
    ("max_held: '7'", "`7` is not a whole number"),
    (f"max_held: {'9' * 400}", "more than 256 bits"),
    ("miss_target: 0", "out of range; write a share"),
    ("miss_target: 1", "0.000001 to 0.999999"),
    ("miss_target: .nan", "is not a share"),
    ("miss_target: yes", "true is not a share"),
    ("miss_target: 0.0000015", "at most six decimals"),
    ("max_held_bytes: 5", "write 5MiB"),
    ("max_held_bytes: 0B", "too small"),
    ("max_held_bytes: 5MB", "`MB`; write 5MiB;"),
    ("start: 256, seq_bits: 8", "256 does not fit 8 bits"),
    ("start: 0, seq_range: 1 to 255", "0 is not a number of `seq_range: 1 to 255`; write start: 1"),
    ("seq_bits: 8, seq_range: 1 to 255", "`seq_range` does too; leave one of them out"),
    ("seq_range: 255 to 1", "`255 to 1` is not a range of numbers; write it like 1 to 65535"),
    ("seq_range: 1-255", "is not a range of numbers"),
    ("seq_range: 5", "is not a range of numbers"),
]
"""Lines of `reorder`, and the problem with the first key of each."""

QUERIES = [
    ("stream: a", "", "is not a window, join, pattern or detector; write exactly one of"),
    ("windw: tumbling 1s", ".windw", "there is no such key; did you mean `window`?"),
    ("window:", ".window", "has no value; write it like tumbling 10s"),
    ("join:", ".join", "has no value; write it like interval 2s"),
    ("pattern:", ".pattern", 'has no value; write it like "PATTERN'),
    ("detector:", ".detector", "has no value; write detector: stops"),
    (f"window: tumbling 1s\n    {COUNTED}\n    speculate:", ".speculate", "belongs to a detector"),
    ("window: tumbling 1s\n    aggregate: {n: count()}", "", "write stream: a"),
    (
        "window: tumbling 1s\n    aggregate: {n: count()}\n    stream: bb",
        ".stream",
        "there is no stream `bb`; did you mean `b`?",
    ),
    ("window: tumblin 1s", ".window", "did you mean `tumbling`?"),
    ("window: ''", ".window", "write one of: tumbling, sliding, session, count"),
    ("window: tumbling", ".window", "write it like tumbling 10s"),
    ("window: tumbling 10", ".window", "`10` has no unit; write 10ms"),
    ("window: tumbling 0s", ".window", "`0s` is not a length"),
    ("window: sliding 10s", ".window", "write it like sliding 10s every 2s"),
    ("window: sliding 1s every 2s", ".window", "make the step at most the size"),
    ("window: count 5s", ".window", "write it like count 100"),
    ("window: count 0", ".window", "write it like count 100"),
    ("window: 10", ".window", "`10` is not a window; write one of: tumbling 10s"),
    (
        "pattern: PATTERN A a WITHIN 1 s\n    stream: a\n    correct_for: 1s",
        ".correct_for",
        "has no effect on a pattern",
    ),
    ("pattern: SEQ(A a) WITHIN 1 s", ".pattern", "`SEQ` where PATTERN or QUERY is expected"),
    ("pattern: PATTERN SEQ(A a)", ".pattern", "a pattern needs a window, like WITHIN"),
    ("pattern: PATTERN A a WHERE b.x > 1 WITHIN 1 s", ".pattern", "(line 1, col"),
    (
        "pattern: PATTERN SEQ(D d, R r) WHERE device = d.device WITHIN 1 s",
        ".pattern",
        "`$device` has no value (line 1, column 29 of the pattern); write `d.device`",
    ),
    ("pattern: ''", ".pattern", "write it like"),
    (
        "pattern: PATTERN A a WITHIN 1 s\n    stream: a\n    key: payload.x",
        ".key",
        "has no effect on a pattern; leave it out",
    ),
]
"""Queries, the path of a problem within each, and words of it."""

WINDOWS = [
    ("accuracy: 99%", ".accuracy", "write it under queries.q.quality"),
    (f"{COUNTED}\n    upsert: 3", ".upsert", "write one of: true, false"),
    ("pattern: PATTERN A a WITHIN 1 s", "", "has window and pattern"),
    ("", ".aggregate", "is missing; add it; write aggregate: {n: count()}"),
    ("key: player", ".key", "write payload.player, or `source` for a key of each source"),
    ("key: payload..x", ".key", "not a path into the payload; write payload.x"),
    ("key: payload.Truck No", ".key", "not a path into the payload; write payload.`Truck No`"),
    ("key: paylod.x", ".key", "write payload.x"),
    ("key: 'payload.a, source'", ".key", "write [payload.a, source] for a key of several values"),
    ("key: 'payload.a[0]'", ".key", "not a path into the payload"),
    ("key: payload.`a", ".key", "not a path into the payload; write payload.a"),
    ("key: ''", ".key", "write it like payload.player"),
    ("key: 3", ".key", "`3` is not a path into the payload; write it like payload.player"),
    ("aggregate: count()", ".aggregate", "write {name: count()}"),
    ("aggregate: {}", ".aggregate", "write at least one"),
    ("aggregate: {v: summ(payload.v)}", ".aggregate.v", "did you mean `sum`"),
    ("aggregate: {v: avg(v)}", ".aggregate.v", "write avg(payload.v)"),
    ("aggregate: {v: avg(payload.a b)}", ".aggregate.v", "write avg(payload.`a b`)"),
    (
        "aggregate: {v: 'quantile(payload.a b, 0.5)'}",
        ".aggregate.v",
        "write quantile(payload.`a b`, 0.5)",
    ),
    ("aggregate: {v: count(payload.v)}", ".aggregate.v", "takes 0 argument"),
    ("aggregate: {v: avg}", ".aggregate.v", "`avg` is not an aggregate"),
    ("aggregate: {1: count()}", ".aggregate.1", "`1` is not text; write it in quotes"),
    ("aggregate: {v: }", ".aggregate.v", "has no value; write it like avg(payload.v)"),
    (
        "aggregate: {v: 'quantile(payload.v, 99)'}",
        ".aggregate.v",
        "`99` is not a quantile between 0 and 1; write it like quantile(payload.v, 0.99)",
    ),
    (
        f"aggregate: {{{', '.join(f'n{i}: count()' for i in range(1_001))}}}",
        ".aggregate",
        "1001 are too many; write at most 1000",
    ),
    ("quality: {accuracy: 101%}", ".quality.accuracy", "like 99% or 0.99"),
    ("quality: {max_wait: 2}", ".quality.max_wait", "write 2ms"),
    (f"{COUNTED}\n    correct_for: 1h", ".correct_for", "raise the file's"),
    ("answer: auto", ".answer", "write one of: final, early, speculate"),
    ("uncertainty: nominal", ".uncertainty", "ignore, thesis3, expected, bo"),
]
"""The same for queries that begin with `ONE`."""

BROKEN += [(MINIMAL + text, path, words) for text, path, words in TOP]
BROKEN += [
    (f"streams: {{a: {{{text}}}}}", f"streams.a.{path}", words) for text, path, words in STREAM
]
BROKEN += [
    (
        f"streams: {{a: {{reorder: {{{line}}}}}}}",
        f"streams.a.reorder.{line.partition(':')[0]}",
        words,
    )
    for line, words in REORDER
]
BROKEN += [(QUERY + text, f"queries.q{path}", words) for text, path, words in QUERIES]
BROKEN += [(QUERY + ONE + text, f"queries.q{path}", words) for text, path, words in WINDOWS]


@pytest.mark.parametrize(("text", "path", "words"), BROKEN, ids=range(len(BROKEN)))
def test_broken_file_is_refused(text: str | bytes, path: str, words: str) -> None:
    assert_refused(text, path, words)


def test_problems_come_in_file_order() -> None:
    problems = refusal(
        "delivery: never\n"
        "streams:\n"
        "  pitch:\n"
        "    reorder:\n"
        "      max_wait: 500\n"
        "      rule: mis\n"
        "    merge: {max_wait: 3s, max_wait: 1s}\n"
        "colour: red\n"
    )
    assert [(problem.line, problem.path) for problem in problems] == [
        (1, "delivery"),
        (5, "streams.pitch.reorder.max_wait"),
        (6, "streams.pitch.reorder.rule"),
        (7, "streams.pitch.merge.max_wait"),
        (8, "colour"),
    ]
    assert str(problems[1]) == (
        "streams.pitch.reorder.max_wait (line 5): `500` has no unit; write 500ms"
    )


def test_problem_in_mapping_has_no_line() -> None:
    (problem,) = refusal({"streams": {"a": {"reorder": {"max_wait": 500}}}})
    assert problem.line is None
    assert str(problem) == "streams.a.reorder.max_wait: `500` has no unit; write 500ms"


@pytest.mark.parametrize(
    "url", ["http://user:secret@host", "redis://:secret@host/0", "unix:///s?password=secret"]
)
def test_password_is_not_repeated(url: str) -> None:
    (problem,) = refusal(f"{MINIMAL}redis: {url}")
    assert "secret" not in str(problem)
    assert url.startswith("http") or "INORDER_REDIS_PASSWORD" in str(problem)
