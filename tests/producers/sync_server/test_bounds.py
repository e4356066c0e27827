"""Examples and laws: the address limiter and the memory of reports stay within their bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.sync_server.limiter import AddressLimiter
from producers.sync_server.seen import SeenTokens


def test_limiter_admits_burst_at_first() -> None:
    limiter = AddressLimiter(rate_per_s=10, burst=5, max_addresses=10)
    assert [limiter.take_token("a", 0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert limiter.take_token("a", 0.1)
    assert not limiter.take_token("a", 0.1)
    assert [limiter.take_token("a", 100.0) for _ in range(7)] == [True] * 5 + [False] * 2


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1", True),
        ("not:an:address", "not:another", False),
    ],
)
def test_ipv6_network_is_one_address(one: str, other: str, are_one: bool) -> None:
    limiter = AddressLimiter(rate_per_s=1, burst=1, max_addresses=10)
    assert limiter.take_token(one, 0.0)
    assert limiter.take_token(other, 0.0) is not are_one


def test_full_limiter_forgets_least_recent() -> None:
    """The address whose last packet is oldest is forgotten."""
    limiter = AddressLimiter(rate_per_s=1, burst=1, max_addresses=2)
    assert [limiter.take_token(each, 0.0) for each in "aba"] == [True, True, False]
    assert limiter.take_token("c", 0.0)  # b is forgotten, because a packet from a came later.
    assert len(limiter) == 2
    assert not limiter.take_token("a", 0.0)
    assert limiter.take_token("b", 0.0)


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), max_size=200))
def test_limiter_never_exceeds_rate(packets: Sequence[tuple[int, float]]) -> None:
    limiter = AddressLimiter(rate_per_s=5, burst=3, max_addresses=30)
    now_s, admitted = 0.0, dict.fromkeys(range(21), 0)
    for address, pause_s in packets:
        now_s += pause_s
        admitted[address] += limiter.take_token(str(address), now_s)
    assert len(limiter) <= 30
    assert all(count <= 3 + 5 * now_s + 1e-6 for count in admitted.values())


@pytest.mark.parametrize("bad", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (float("nan"), 1, 1)])
def test_zero_limit_is_refused(bad: tuple[float, int, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        AddressLimiter(*bad)


def test_report_is_forgotten_after_keep_s() -> None:
    seen = SeenTokens(keep_s=5, max_entries=10)
    assert not seen.has(b"a", 0.0)
    seen.add(b"a")
    assert seen.has(b"a", 4.9)
    assert not seen.has(b"b", 4.9)
    seen.add(b"b")
    assert seen.has(b"b", 9.8)  # b is 4.9 s old, and one generation has passed.
    assert seen.has(b"a", 9.8)
    assert not seen.has(b"a", 14.9)
    assert len(seen) == 0
    seen.add(b"c")
    assert not seen.has(b"c", 99.0)
    assert len(seen) == 0


@given(st.lists(st.floats(0, 3), max_size=100))
def test_law_token_is_kept_for_keep_s(pauses_s: Sequence[float]) -> None:
    seen = SeenTokens(keep_s=5, max_entries=1_000)
    now_s, added = 0.0, list[tuple[bytes, float]]()
    for number, pause_s in enumerate(pauses_s):
        now_s += pause_s
        token = b"%d" % number
        assert not seen.has(token, now_s)
        seen.add(token)
        added.append((token, now_s))
        assert all(seen.has(old, now_s) for old, at_s in added if now_s - at_s < 5)


def test_memory_is_full_for_a_generation() -> None:
    seen = SeenTokens(keep_s=5, max_entries=2)
    for token in (b"a", b"b"):
        assert not seen.has(token, 0.0)
        assert [seen.is_full] == [False]
        seen.add(token)
    assert [seen.is_full] == [True]
    assert not seen.has(b"c", 5.1)
    assert [seen.is_full] == [False]
    assert seen.has(b"a", 5.1)
