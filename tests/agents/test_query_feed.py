"""Examples: what records of the topic `queries` do to the queries that run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents import query_feed
from agents.brokers import Brokers
from agents.query_feed import QueryFeed
from topology.description import parse

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
        (b"q", b"{}", "is no window, join or pattern"),
        (b"q", b'{"window": "count 5", "aggregate": {"n": "count()"}, "stream": "a"}', "file"),
        (b"q", b'{"pattern": "PATTERN SEQ(A a, B b)", "stream": "a"}', "WITHIN"),
        (b"q", json.dumps({"pattern": PATTERN}).encode(), "write stream: a"),
        (b"q", json.dumps({"pattern": PATTERN, "stream": "c"}).encode(), "no stream `c`"),
        (b"q", json.dumps({"patern": PATTERN, "stream": "a"}).encode(), "did you mean"),
        (b"good", b'{"pattern": 3}', "not a pattern"),
    ]:
        assert wrong in feed.take(key, value), (key, value)
    assert feed.version == 1
    assert set(feed.queries) == {"own", "good"}


def test_there_is_a_bound(feed: QueryFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_feed, "MAX_QUERIES", 2)
    assert add(feed, "one", pattern=PATTERN, stream="b") == ""
    assert "2 queries run already" in add(feed, "two", pattern=PATTERN, stream="b")
    assert add(feed, "one", pattern=PATTERN, stream="a") == "", "replacing is no more"
