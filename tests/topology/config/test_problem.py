"""The topology file: an example table of broken files, each with path and remedy."""

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


def reorder(line: str) -> str:
    return f"streams: {{pitch: {{reorder: {{{line}}}}}}}"


QUERY = "streams: {a: {}, b: {}}\nqueries:\n  q:\n    "
ONE = "window: tumbling 1s\n    stream: a\n    "
TABLE = "{window: tumbling 1s, aggregate: {n: count()}, upsert: true}"
COUNTED = "aggregate: {n: count()}"
PROMISED = f"{COUNTED}\n    quality: {{}}\nwindows_read: sequenced\n"

BROKEN: list[tuple[str, str, str]] = [
    # the text itself
    ("", "", "the file is empty; write at least streams: {default: {}}"),
    ("# nothing\n", "", "the file is empty"),
    ("streams: [", "", "not YAML"),
    ("streams: {a: {}}\n\tx: 1", "", "line 2"),
    ("a: 1\n---\nb: 2", "", "not YAML: but found another document"),
    ("streams: !!python/object:os.system {}", "", "not YAML: could not determine a constructor"),
    ("streams: !!int x", "", "cannot be read"),
    ("streams: {a: 2024-13-45}", "", "month must be in 1..12"),
    ("streams: !!timestamp x", "", "cannot be read"),
    (f"streams: {{a: {'9' * 5000}}}", "", "cannot be read"),
    ("streams: \x00", "", "not YAML"),
    ("[" * 20_000, "", "nested too deeply"),
    ("#" * 1_000_001, "", "the text has 1000001 characters; keep it below 1000000"),
    ("- streams", "", "a list is not a mapping; write keys with values"),
    ("streams", "", "`streams` is not a mapping"),
    (
        "streams: {a: {}, a: {}}",
        "streams.a",
        "appears here twice (line 1, column 18; first in line",
    ),
    (reorder("late: drop, late: side"), "streams.pitch.reorder.late", "keep one of the two"),
    # keys
    ("stream: {a: {}}", "stream", "there is no such key; did you mean `streams`?"),
    ("stages: [reorder+merge]", "streams", "is missing; add it; write at least streams"),
    ("1: 2\nstreams: {a: }", "[1]", "the key `1` is not text; write it in quotes"),
    (reorder("maxwait: 500ms"), "streams.pitch.reorder.maxwait", "did you mean `max_wait`?"),
    (reorder("max_wait_ns: 5"), "streams.pitch.reorder.max_wait_ns", "did you mean `max_wait`?"),
    ("streams: {a: {topic: x}}", "streams.a.topic", "no such key; write one of: input, output,"),
    ("streams: {a: {clock: {max_slew: 3}}}", "streams.a.clock.max_slew", "no such key"),
    (f"{MINIMAL}topics: {{partition: 3}}", "topics.partition", "did you mean `partitions`?"),
    # keys that belong elsewhere
    (
        "streams: {a: {ts_unit: ms}}",
        "streams.a.ts_unit",
        "; add `fields`; for the header contract write headers: {ts_unit: ms}",
    ),
    (
        "streams: {a: {max_wait: 1s}}",
        "streams.a.max_wait",
        "write it under streams.a.reorder or under streams.a.merge",
    ),
    (reorder("idle_after: 1s"), "streams.pitch.reorder.idle_after", "under streams.pitch.merge"),
    (
        "streams: {a: {merge: {max_events: 500}}}",
        "streams.a.merge.max_events",
        "did you mean `max_queued` or `max_queued_bytes`? `max_events` is a key under queries",
    ),
    ("streams: {a: {delivery: exactly_once}}", "streams.a.delivery", "write it at the top of the"),
    (f"{MINIMAL}unsynced: trust", "unsynced", "write it under streams.<name>.clock"),
    (f"{MINIMAL}clock: {{unsynced: trust}}", "clock", "write it under streams.<name>"),
    (f"{MINIMAL}topics: {{state: redis}}", "topics.state", "write it at the top of the file"),
    (f"{MINIMAL}partitions: 3", "partitions", "write it under topics"),
    (f"{QUERY}{ONE}accuracy: 99%", "queries.q.accuracy", "write it under queries.q.quality"),
    ("streams: {a: {tsunits: ms}}", "streams.a.tsunits", "did you mean `ts_unit`?"),
    (reorder("outputs: x"), "streams.pitch.reorder.outputs", "`output` under streams.pitch?"),
    # names of streams
    ("streams:", "streams", "is empty; name at least one stream: streams: {default: {}}"),
    ("streams: {}", "streams", "is empty; name at least one stream"),
    ("streams: [a]", "streams", "a list is not a mapping; write names with sections"),
    ("streams: {1: {}}", "streams[1]", "the name `1` is not text; write it in quotes"),
    ("streams: {on: {}}", "streams[1]", "the name true is not text; write it in quotes"),
    ('streams: {"": {}}', "streams.", "a name of 0 characters; use 1 to 249 characters"),
    (f"streams: {{{'x' * 250}: }}", f"streams.{'x' * 250}", "a name of 250 characters"),
    ("streams: {süd: {}}", "streams.süd", "is not printable ASCII"),
    ('streams: {"a.b": {x: 1}}', 'streams."a.b".x', "there is no such key"),
    ("streams: {a: 3}", "streams.a", "`3` is not a mapping; write keys with values, known: input"),
    # durations
    (reorder("max_wait: 500"), "streams.pitch.reorder.max_wait", "`500` has no unit; write 500ms"),
    (reorder("max_wait: '500'"), "streams.pitch.reorder.max_wait", "no unit; write 500ms"),
    (reorder("max_wait: 0"), "streams.pitch.reorder.max_wait", "`0` has no unit; write 0ms"),
    (reorder("max_wait: 0.5"), "streams.pitch.reorder.max_wait", "no unit; write 0.5ms"),
    (
        reorder("max_wait: 5 sec"),
        "streams.pitch.reorder.max_wait",
        "unknown unit `sec`; write 5s; use one of",
    ),
    (
        reorder("max_wait: 5m"),
        "streams.pitch.reorder.max_wait",
        "unknown unit `m`; write 5min; use",
    ),
    (reorder("max_wait: 5w"), "streams.pitch.reorder.max_wait", "unknown unit `w`; use one of: ns"),
    (reorder("max_wait: 0.5ns"), "streams.pitch.reorder.max_wait", "not a whole number of ns"),
    (reorder("max_wait: -5ms"), "streams.pitch.reorder.max_wait", "not a number with a unit"),
    (reorder("max_wait: soon"), "streams.pitch.reorder.max_wait", "write it like 500ms"),
    (reorder("max_wait: true"), "streams.pitch.reorder.max_wait", "true is not a number with"),
    (reorder("max_wait: [1s]"), "streams.pitch.reorder.max_wait", "a list is not a number with"),
    (reorder("max_wait: "), "streams.pitch.reorder.max_wait", "has no value; give one, or leave"),
    (reorder("max_wait: 300000d"), "streams.pitch.reorder.max_wait", "is too large; at most"),
    (reorder("max_wait: ٥ms"), "streams.pitch.reorder.max_wait", "not a number with a unit"),
    (reorder("gap_memory: 0s"), "streams.pitch.reorder.gap_memory", "too small; write more than 0"),
    ("streams: {a: {merge: {idle_after: 2}}}", "streams.a.merge.idle_after", "write 2ms"),
    (f"{MINIMAL}checkpoint: 0ms", "checkpoint", "`0ms` is too small"),
    # words
    (
        reorder("rule: mis"),
        "streams.pitch.reorder.rule",
        "`mis` is not known here; did you mean `mi",
    ),
    (reorder("rule: FIXED"), "streams.pitch.reorder.rule", "did you mean `fixed`?"),
    (reorder("rule: 7"), "streams.pitch.reorder.rule", "write one of: miss, fixed, time"),
    (reorder("late: off"), "streams.pitch.reorder.late", "false is not known here; write one of"),
    (reorder("start: -1"), "streams.pitch.reorder.start", "write auto, zero or the first number"),
    (reorder("start: true"), "streams.pitch.reorder.start", "true is no start"),
    (reorder("infer_restart: 1"), "streams.pitch.reorder.infer_restart", "auto, true or false"),
    ("streams: {a: {headers: {preset: ce}}}", "streams.a.headers.preset", "plain, cloudevents"),
    ("streams: {a: {headers: {ts_unit: min}}}", "streams.a.headers.ts_unit", "ns, us, ms, s"),
    (f"{MINIMAL}delivery: exactly-once", "delivery", "did you mean `exactly_once`?"),
    (f"{MINIMAL}state: rocks", "state", "did you mean `rocksdb`?"),
    (f"{MINIMAL}watermark: maybe", "watermark", "neither true nor false; write true or false"),
    # numbers
    (reorder("seq_bits: 7"), "streams.pitch.reorder.seq_bits", "out of range; write one from 8 to"),
    (reorder("seq_bits: 64"), "streams.pitch.reorder.seq_bits", "write one from 8 to 63"),
    (reorder("max_held: 0"), "streams.pitch.reorder.max_held", "write one from 1 to"),
    (reorder("max_held: 1.0"), "streams.pitch.reorder.max_held", "`1.0` is not a whole number"),
    (reorder("max_held: true"), "streams.pitch.reorder.max_held", "true is not a whole number"),
    (reorder("max_held: '7'"), "streams.pitch.reorder.max_held", "`7` is not a whole number"),
    (reorder(f"max_held: {'9' * 400}"), "streams.pitch.reorder.max_held", "more than 256 bits"),
    (reorder("miss_target: 0"), "streams.pitch.reorder.miss_target", "out of range; write a share"),
    (reorder("miss_target: 1"), "streams.pitch.reorder.miss_target", "0.000001 to 0.999999"),
    (reorder("miss_target: 100%"), "streams.pitch.reorder.miss_target", "out of range"),
    (reorder("miss_target: .nan"), "streams.pitch.reorder.miss_target", "is not a share"),
    (reorder("miss_target: yes"), "streams.pitch.reorder.miss_target", "true is not a share"),
    (
        reorder("miss_target: 0.0000015"),
        "streams.pitch.reorder.miss_target",
        "at most six decimals",
    ),
    (reorder("max_held_bytes: 5"), "streams.pitch.reorder.max_held_bytes", "write 5MiB"),
    (reorder("max_held_bytes: 5MB"), "streams.pitch.reorder.max_held_bytes", "`MB`; write 5MiB;"),
    (reorder("max_held_bytes: 0B"), "streams.pitch.reorder.max_held_bytes", "too small"),
    (f"{MINIMAL}topics: {{partitions: 0}}", "topics.partitions", "write one from 1 to 10000"),
    # names
    ("streams: {a: {input: a b}}", "streams.a.input", "not a name Kafka takes for a topic; use 1"),
    ("streams: {a: {input: ..}}", "streams.a.input", "not a name Kafka takes"),
    ('streams: {a: {input: ""}}', "streams.a.input", "not a name Kafka takes"),
    (f"streams: {{a: {{output: {'x' * 250}}}}}", "streams.a.output", "not a name Kafka takes"),
    ("streams: {a: {input: 7}}", "streams.a.input", "`7` is not text"),
    (f"{MINIMAL}application: my app", "application", "use 1 to 150 of the characters"),
    (f"{MINIMAL}redis: localhost", "redis", "write it like redis://127.0.0.1:6379/0"),
    ("streams: {a: {headers: {seq: ''}}}", "streams.a.headers.seq", "printable ASCII characters"),
    ("streams: {a: {headers: {seq: ts}}}", "streams.a.headers.ts", "already means `seq`"),
    ("streams: {a: {headers: {seq: refTs}}}", "streams.a.headers.seq", "what the stages stamp"),
    (
        "streams: {a: {merge: {expected_sources: [a, 3, a, '']}}}",
        "streams.a.merge.expected_sources[1]",
        "`3` is not text; write the source's name, in quotes",
    ),
    ("streams: {a: {merge: {expected_sources: a}}}", "streams.a.merge.expected_sources", "a list"),
    # the clock of this version
    ("streams: {a: {clock: {max_skew: 3}}}", "streams.a.clock.max_skew", "write 3ppm"),
    ("streams: {a: {clock: {max_skew: 2%}}}", "streams.a.clock.max_skew", "write it like 100ppm"),
    ("streams: {a: {clock: {max_skew: 10001ppm}}}", "streams.a.clock.max_skew", "10000ppm or less"),
    ("streams: {a: {clock: {wander: 1ppm}}}", "streams.a.clock.wander", "ppm/min"),
    ("streams: {a: {clock: {unsynced: trusted}}}", "streams.a.clock.unsynced", "mean `trust`?"),
    ("streams: {a: {clock: {sync: tcp}}}", "streams.a.clock.sync", "udp"),
    # stages
    (f"{MINIMAL}stages: reorder", "stages", "`reorder` is not a list of stages; write [reorder, m"),
    (f"{MINIMAL}stages: []", "stages", "`reorder` is missing; write [reorder, merge] or"),
    (f"{MINIMAL}stages: [reorder]", "stages", "`merge` is missing"),
    (f"{MINIMAL}stages: [reorder, marge]", "stages[1]", "not an operator; did you mean `merge`?"),
    (f"{MINIMAL}stages: [merge, reorder]", "stages[1]", "`reorder` comes after `merge`; keep the"),
    (f"{MINIMAL}stages: [reorder+merge, merge]", "stages[1]", "appears here twice; name it once"),
    (f"{MINIMAL}stages: [reorder+, merge]", "stages[0]", "is not an operator"),
    (f"{MINIMAL}stages: [3]", "stages[0]", "`3` is not the name of a stage"),
    # parts that must agree
    (reorder("start: 256, seq_bits: 8"), "streams.pitch.reorder.start", "256 does not fit 8 bits"),
    ("streams: {a: {output: events.raw}}", "streams.a.output", "the input of stream `a`"),
    ("streams: {a: {output: events.dead}}", "streams.a.output", "`topics.dead` already"),
    (
        "streams: {a: {input: events.dead}}",
        "topics.dead",
        "the input of stream `a`; give it a name",
    ),
    (f"{MINIMAL}topics: {{gaps: events.late}}", "topics.late", "is `topics.gaps` already"),
    (
        "streams: {a: {}, b: {headers: {preset: cloudevents}}}\nstages: [reorder+merge]",
        "streams.b.headers",
        "other headers than stream `a`, though both travel by `events.raw`",
    ),
    (
        "streams: {a: {}, b: {input: raw.b, headers: {ts_unit: ms}}}",
        "streams.b.headers",
        "both travel by `events.sequenced`; write the same headers as for `a`, or fuse",
    ),
    (f"{MINIMAL}checkpoint: 10s", "checkpoint", "not below transaction_timeout"),
    (f"{MINIMAL}stuck_after: 10s", "stuck_after", "not above transaction_timeout"),
    (f"{MINIMAL}stuck_after: 9s", "stuck_after", "a rebalance alone takes that long"),
    # topics of queries
    (
        f"{QUERY}{ONE}{COUNTED}\n    output: x",
        "queries.q.output",
        "means nothing without `upsert: true`",
    ),
    (f"{QUERY}{ONE}{COUNTED}\n    upsert: 3", "queries.q.upsert", "write true or false"),
    (
        f"{QUERY}{ONE}{COUNTED}\n    upsert: true\n    output: a b",
        "queries.q.output",
        "a name Kafka takes",
    ),
    (f"{MINIMAL}queries: {{a b: {TABLE}}}", "queries.a b.output", "`results.a b` is not a name"),
    (f"{MINIMAL}queries: {{windows: {TABLE}}}", "queries.windows.output", "is `topics.windows`"),
    (
        f"{MINIMAL}queries: {{q: {TABLE[:-1]}, output: events.raw}}}}",
        "queries.q.output",
        "input of",
    ),
    (
        f"{MINIMAL}queries: {{q: {TABLE}, r: {TABLE[:-1]}, output: results.q}}}}",
        "queries.r.output",
        "`results.q` is the output of `q` already; write output: and a name of its own",
    ),
    # queries
    (f"{MINIMAL}queries: [q]", "queries", "a list is not a mapping"),
    (
        f"{QUERY}stream: a",
        "queries.q",
        "is no window, join, pattern or detector; write exactly one of",
    ),
    (f"{QUERY}{ONE}pattern: PATTERN A a WITHIN 1 s", "queries.q", "has window and pattern"),
    (f"{QUERY}window: tumbling 1s\n    aggregate: {{n: count()}}", "queries.q", "write stream: a"),
    (
        f"{QUERY}window: tumbling 1s\n    aggregate: {{n: count()}}\n    stream: bb",
        "queries.q.stream",
        "there is no stream `bb`; did you mean `b`?",
    ),
    (f"{QUERY}{ONE}", "queries.q", "a window without `aggregate`; write aggregate: {n: count()}"),
    (f"{QUERY}window: tumblin 1s", "queries.q.window", "did you mean `tumbling`?"),
    (f"{QUERY}window: ''", "queries.q.window", "write one of: tumbling, sliding, session, count"),
    (f"{QUERY}window: tumbling", "queries.q.window", "write it like tumbling 10s"),
    (f"{QUERY}window: tumbling 10", "queries.q.window", "`10` has no unit; write 10ms"),
    (f"{QUERY}window: tumbling 0s", "queries.q.window", "`0s` is no length"),
    (f"{QUERY}window: sliding 10s", "queries.q.window", "write it like sliding 10s every 2s"),
    (f"{QUERY}window: sliding 1s every 2s", "queries.q.window", "make the step at most the size"),
    (f"{QUERY}window: session", "queries.q.window", "write it like session 5s"),
    (f"{QUERY}window: count 5s", "queries.q.window", "write it like count 100"),
    (f"{QUERY}window: count 0", "queries.q.window", "write it like count 100"),
    (f"{QUERY}window: 10s", "queries.q.window", "is not a window"),
    (f"{QUERY}window: 10", "queries.q.window", "`10` is not a window; write one of: tumbling 10s"),
    (f"{QUERY}{ONE}key: player", "queries.q.key", "write it like payload.player"),
    (f"{QUERY}{ONE}key: payload..x", "queries.q.key", "not a path into the payload"),
    (f"{QUERY}{ONE}aggregate: count()", "queries.q.aggregate", "write {name: count()}"),
    (f"{QUERY}{ONE}aggregate: {{}}", "queries.q.aggregate", "write at least one"),
    (f"{QUERY}{ONE}aggregate: {{v: mean(payload.v)}}", "queries.q.aggregate.v", "not an aggregate"),
    (
        f"{QUERY}{ONE}aggregate: {{v: summ(payload.v)}}",
        "queries.q.aggregate.v",
        "did you mean `sum`",
    ),
    (
        f"{QUERY}{ONE}aggregate: {{v: avg(v)}}",
        "queries.q.aggregate.v",
        "write it like avg(payload.v)",
    ),
    (f"{QUERY}{ONE}aggregate: {{v: avg()}}", "queries.q.aggregate.v", "takes 1 arguments, not 0"),
    (
        f"{QUERY}{ONE}aggregate: {{v: count(payload.v)}}",
        "queries.q.aggregate.v",
        "takes 0 argument",
    ),
    (f"{QUERY}{ONE}aggregate: {{v: avg}}", "queries.q.aggregate.v", "`avg` is not an aggregate"),
    (f"{QUERY}{ONE}aggregate: {{v: 3}}", "queries.q.aggregate.v", "`3` is not an aggregate"),
    (
        f"{QUERY}{ONE}aggregate: {{v: 'quantile(payload.v, 99)'}}",
        "queries.q.aggregate.v",
        "`99` is not a quantile between 0 and 1; write it like quantile(payload.v, 0.99)",
    ),
    (
        f"{QUERY}{ONE}{COUNTED}\n    uncertainty: bounds".replace("1s", "40ms"),
        "queries.q.window",
        "no event certainly belongs to a window of at most 40000000 ns; write a longer one",
    ),
    (f"{MINIMAL}max_batch: 5", "max_batch", "leave it out: transactions are as large as the link"),
    (
        f"{QUERY}{ONE}aggregate: {{{', '.join(f'n{i}: count()' for i in range(1_001))}}}",
        "queries.q.aggregate",
        "1001 are too many; write at most 1000",
    ),
    (f"{QUERY}{ONE}quality: {{accuracy: 101%}}", "queries.q.quality.accuracy", "like 99% or 0.99"),
    (f"{QUERY}{ONE}quality: {{max_wait: 2}}", "queries.q.quality.max_wait", "write 2ms"),
    (f"{QUERY}{ONE}{COUNTED}\nwindows_read: sequenced", "queries.q", "quality: {accuracy: 99%"),
    (f"{QUERY}{ONE}{COUNTED}\nwindows_read: raw", "windows_read", "ordered, sequenced"),
    (
        f"{QUERY}{ONE}{PROMISED}stages: [reorder+merge, window]",
        "windows_read",
        "join them: reorder+merge+window",
    ),
    (
        f"{QUERY}{ONE}{PROMISED}stages: [reorder, merge, window+pattern]",
        "windows_read",
        "cut `window` off",
    ),
    (f"{QUERY}{ONE}{COUNTED}\n    correct_for: 1h", "queries.q.correct_for", "raise the file's"),
    (
        f"{QUERY}pattern: PATTERN A a WITHIN 1 s\n    stream: a\n    correct_for: 1s",
        "queries.q.correct_for",
        "means nothing to a pattern",
    ),
    (f"{QUERY}{ONE}quality: {{strategy: rsk}}", "queries.q.quality.strategy", "mean `risk`?"),
    (f"{QUERY}{ONE}quality: {{strategy: fixed}}", "queries.q.quality.strategy", "add wait: 100ms"),
    (f"{QUERY}{ONE}quality: {{wait: 1s}}", "queries.q.quality.wait", "of strategy `fixed`"),
    (
        f"{QUERY}{ONE}quality: {{strategy: fixed, wait: 1s, guard: soft}}",
        "queries.q.quality.guard",
        "is the parameter of strategy `risk`; leave it out",
    ),
    (f"{QUERY}{ONE}quality: {{acuracy: 9%}}", "queries.q.quality.acuracy", "mean `accuracy`?"),
    (f"{QUERY}{ONE}uncertainty: nominal", "queries.q.uncertainty", "ignore, thesis3, expected, bo"),
    (f"{QUERY}{ONE}size: 10s", "queries.q.size", "there is no such key"),
    (
        f"{QUERY}pattern: SEQ(A a) WITHIN 1 s",
        "queries.q.pattern",
        "`SEQ` where EVENT, PATTERN or QUERY is expected",
    ),
    (
        f"{QUERY}pattern: PATTERN SEQ(A a)",
        "queries.q.pattern",
        "a pattern needs its window, like WITHIN",
    ),
    (f"{QUERY}pattern: PATTERN A a WHERE b.x > 1 WITHIN 1 s", "queries.q.pattern", "(line 1, col"),
    (
        f"{QUERY}pattern: PATTERN SEQ(D d, R r) WHERE device = d.device WITHIN 1 s",
        "queries.q.pattern",
        "`$device` has no value (line 1, column 29 of the pattern); write `d.device`",
    ),
    (f"{QUERY}pattern: ''", "queries.q.pattern", "write it like"),
    (
        f"{QUERY}pattern: PATTERN A a WITHIN 1 s\n    stream: a\n    key: payload.x",
        "queries.q.key",
        "means nothing to a pattern; leave it out",
    ),
]


@pytest.mark.parametrize(("text", "path", "words"), BROKEN, ids=range(len(BROKEN)))
def test_broken(text: str, path: str, words: str) -> None:
    problems = refusal(text)
    matching = [problem for problem in problems if problem.path == path]
    assert matching, problems
    assert any(words in str(problem) for problem in matching), matching
    assert all(problem.message and problem.remedy for problem in problems)
    assert all(len(str(problem)) < 800 for problem in problems)


def test_no_file_is_just_accepted_of_those_above() -> None:
    assert len({text for text, _, _ in BROKEN}) == len(BROKEN)


def test_bytes_that_are_no_text() -> None:
    (problem,) = refusal(b"streams: \xff")
    assert problem.message == "not UTF-8 text: byte 9 is 0xff"


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
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


def test_a_mapping_has_no_lines() -> None:
    (problem,) = refusal({"streams": {"a": {"reorder": {"max_wait": 500}}}})
    assert problem.line is None
    assert str(problem) == "streams.a.reorder.max_wait: `500` has no unit; write 500ms"


@pytest.mark.parametrize(
    "url", ["http://user:secret@host", "redis://:secret@host/0", "unix:///s?password=secret"]
)
def test_a_password_is_refused_and_not_repeated(url: str) -> None:
    (problem,) = refusal(f"{MINIMAL}redis: {url}")
    assert "secret" not in str(problem)
    assert url.startswith("http") or "INORDER_REDIS_PASSWORD" in str(problem)


def test_aliases_cannot_unfold_without_end() -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    text = "\n".join(["a0: &a0 [x]", *levels, "streams: {a: {merge: {expected_sources: *a29}}}"])
    assert all(len(str(problem)) < 400 for problem in refusal(text))
    assert refusal("streams: &s {a: *s}")
