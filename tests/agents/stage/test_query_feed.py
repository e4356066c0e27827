"""Examples: what records of the topic `queries` do to the queries that run."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from agents.kafka.brokers import Brokers
from agents.stage import query_feed
from agents.stage.query_feed import QueryFeed
from topology.config import parse
from topology.flow.stage import Stage
from topology.pattern.language.affordable import too_long, too_much
from topology.pattern.language.parse import parse_query
from topology.pattern.operator import Pattern
from topology.pattern.run import compiled as compiled_module
from topology.pattern.run.compiled import Compiled

TOPOLOGY = """\
streams: {a: {}, b: {}}
queries:
  own: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s", stream: a}
live_queries: true
"""
PATTERN = "PATTERN SEQ(A a, C c) WITHIN 1 s"


@pytest.fixture
def feed() -> QueryFeed:
    return QueryFeed(Brokers("127.0.0.1:1", is_embedded=False), parse(TOPOLOGY))


def add(feed: QueryFeed, name: str, **document: Any) -> str:
    return feed.take(name.encode(), json.dumps(document).encode())


def test_a_query_is_added_replaced_and_removed(feed: QueryFeed) -> None:
    assert add(feed, "new", pattern=PATTERN, stream="b", finals=True) == ""
    assert feed.version == 1
    assert feed.queries["new"].finals
    assert add(feed, "new", pattern=PATTERN, stream="b", finals=True) == ""
    assert feed.version == 1, "the same again changes nothing"
    assert add(feed, "new", pattern=PATTERN, stream="a") == ""
    assert feed.version == 2
    assert feed.take(b"new", None) == ""
    assert feed.take(b"new", None) == ""
    assert feed.version == 3
    assert list(feed.queries) == ["own"]


def test_what_is_no_query_changes_nothing(feed: QueryFeed) -> None:
    add(feed, "good", pattern=PATTERN, stream="b")
    for key, value, wrong in [
        (b"\xff", b"{}", "no UTF-8"),
        (b"q", b"{", "no JSON"),
        (b"", b"{}", "no name"),
        (b"q" * 250, b"{}", "no name"),
        (None, b"{}", "no name"),
        (b"own", b"{}", "is a query of the topology file"),
        (b"own", None, "is a query of the topology file"),
        (b"q", b"[]", "not a mapping"),
        (b"q", b"{}", "is no window, join, pattern or detector"),
        (b"q", b'{"window": "count 5", "aggregate": {"n": "count()"}, "stream": "a"}', "file"),
        (b"q", b'{"pattern": "PATTERN SEQ(A a, B b)", "stream": "a"}', "WITHIN"),
        (b"q", json.dumps({"pattern": PATTERN}).encode(), "write stream: a"),
        (b"q", json.dumps({"pattern": PATTERN, "stream": "c"}).encode(), "no stream `c`"),
        (b"q", json.dumps({"patern": PATTERN, "stream": "a"}).encode(), "did you mean"),
        (b"good", b'{"pattern": 3}', "not a pattern"),
        (
            b"q",
            json.dumps({"pattern": PATTERN, "stream": "a", "upsert": True}).encode(),
            "has no topic of its own; leave it out",
        ),
    ]:
        assert wrong in feed.take(key, value), (key, value)
    assert feed.version == 1
    assert set(feed.queries) == {"own", "good"}


def test_another_answer_is_taken_under_the_same_name(feed: QueryFeed) -> None:
    for version, answer in enumerate(("final", "early", "final"), start=1):
        assert add(feed, "q", pattern=PATTERN, stream="a", answer=answer) == ""
        assert (feed.queries["q"].answer, feed.version) == (answer, version)
    wrong = add(feed, "q", pattern=PATTERN, stream="a", answer="auto")
    assert "`auto` is an answer of detectors, and this is a pattern" in wrong
    assert "write answer: early, or answer: final" in wrong


def test_there_is_a_bound(feed: QueryFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_feed, "MAX_QUERIES", 2)
    assert add(feed, "one", pattern=PATTERN, stream="b") == ""
    assert "2 queries run already" in add(feed, "two", pattern=PATTERN, stream="b")
    assert add(feed, "one", pattern=PATTERN, stream="a") == "", "replacing is no more"


def compiled(stage: Stage) -> dict[str, Compiled]:
    pattern = stage.chains["a"].operator("pattern")
    assert isinstance(pattern, Pattern)
    return pattern.compiled


def test_a_query_is_compiled_once_for_all_partitions_and_not_in_the_loop(
    feed: QueryFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own_only(query: Any, *rest: Any) -> Compiled:
        assert query.name == "own", "it was compiled when its record was read"
        return Compiled(query, *rest)

    partitions = [Stage(parse(TOPOLOGY), ["pattern"]) for _ in range(2)]
    add(feed, "new", pattern=PATTERN, stream="a")
    add(feed, "gone", pattern=PATTERN, stream="b")
    monkeypatch.setattr(compiled_module, "Compiled", own_only)
    for stage in partitions:
        stage.set_queries(feed.queries, feed.compiled)
        stage.begin(stage.streams)
    first, second = (compiled(stage) for stage in partitions)
    assert set(first) == {"own", "new"}
    assert first["new"] is second["new"] is feed.compiled["new"]
    feed.take(b"gone", None)
    assert set(feed.compiled) == {"new"}, "as many as there are queries"
    monkeypatch.undo()
    before = feed.compiled["new"]
    add(feed, "new", pattern=PATTERN.replace("1 s", "2 s"), stream="a")
    partitions[0].set_queries(feed.queries, feed.compiled)
    after = compiled(partitions[0])["new"]
    assert after is feed.compiled["new"] is not before


class Topic:
    """A consumer that finds these records, some at a time."""

    def __init__(self, records: list[tuple[bytes, bytes | None]]) -> None:
        self._records = records
        self._at = 0

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        found = self._records[self._at : self._at + min(3, max_records)]
        first, self._at = self._at, self._at + len(found)
        return {
            PLACE: [
                SimpleNamespace(
                    key=key, value=value, topic="queries", partition=0, offset=first + n
                )
                for n, (key, value) in enumerate(found)
            ]
        }

    async def position(self, _: TopicPartition) -> int:
        return self._at


PLACE = TopicPartition("queries", 0)
MANY = " OR ".join(f"a.x > {n}" for n in range(10_000))
WAYS = ", ".join(f"OR(A a{n}, B b{n})" for n in range(6))
COSTLY = {
    "many": f"PATTERN A a WHERE {MANY} WITHIN 1 s",
    "fewer": f"PATTERN A a WHERE {MANY[:12_000]} 1 WITHIN 1 s",
    "deep": f"PATTERN A a WHERE {'(' * 2_000}a.x > 1{')' * 2_000} WITHIN 1 s",
    "ways": f"PATTERN SEQ({WAYS}) WHERE {' AND '.join(['a1.x > 1'] * 150)} WITHIN 1 s",
    "listed": f"PATTERN A a WHERE a.x IN ({', '.join(['1'] * 3_000)}) WITHIN 1 s",
    "strange": "PATTERN A a WHERE a.x > \x00 WITHIN 1 s",
}


def test_texts_that_cost_too_much_are_set_aside_by_name(feed: QueryFeed) -> None:
    """They used to hold the event loop for seconds each, at every start."""

    def record(name: str, pattern: str) -> tuple[bytes, bytes]:
        return name.encode(), json.dumps({"pattern": pattern, "stream": "a"}).encode()

    records = [record(name, text) for name, text in COSTLY.items()]
    topic: Any = Topic([*records, record("good", PATTERN), *records, record("late", PATTERN)])
    longest_s = 0.0

    async def read() -> None:
        nonlocal longest_s
        reading = asyncio.ensure_future(feed._take_next(topic, {PLACE: 14}))
        while not reading.done():
            before_s = time.process_time()  # of the loop, whoever else has the processor
            await asyncio.sleep(0.001)
            longest_s = max(longest_s, time.process_time() - before_s)
        await reading

    feed.take(*record("first", PATTERN))  # the parser's tables are made once
    begun_s = time.process_time()
    asyncio.run(read())
    assert time.process_time() - begun_s < 1
    assert longest_s < 1
    assert set(feed.queries) == {"own", "first", "good", "late"}
    assert feed.set_aside.keys() == COSTLY.keys()
    assert feed.refused == len(COSTLY), "of each name only the newest record is read"
    assert "more than 16000 bytes" in feed.set_aside["many"]
    assert "1000 words" in feed.set_aside["fewer"]
    assert "64 ways" in feed.set_aside["ways"]
    feed.take(*record("ways", PATTERN))
    feed.take(b"many", None)
    assert not {"ways", "many"} & feed.set_aside.keys()


def test_whatever_reading_a_query_does_the_stage_goes_on(
    feed: QueryFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(query_feed, "query_of", fail)
    assert "RecursionError: too deep" in add(feed, "new", pattern=PATTERN, stream="b")
    assert "RecursionError" in feed.set_aside["new"]


def test_names_that_are_set_aside_have_a_bound(
    feed: QueryFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_feed, "MAX_SET_ASIDE", 2)
    for number in range(5):
        add(feed, f"q{number}", pattern="PATTERN")
    assert list(feed.set_aside) == ["q0", "q1"]


def test_the_worst_text_that_is_read_costs_little() -> None:
    """Bounds are of words, for time is the machine's; this says that they are near 0.1 s."""
    texts = [
        "PATTERN A a WHERE " + " OR ".join(["a.x>1"] * 160) + " WITHIN 1 s UNCERTAIN POSSIBLE",
        f"PATTERN SEQ({WAYS}) WITHIN 1 s UNCERTAIN POSSIBLE",
    ]
    for text in texts:
        assert not too_long(text)
        query = parse_query(text)
        assert not too_much(text, query)
        times_s = []
        for _ in range(3):
            begun_s = time.process_time()
            Compiled(parse_query(text))
            times_s.append(time.process_time() - begun_s)
        assert min(times_s) < 0.5
