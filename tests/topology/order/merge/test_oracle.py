"""Examples that check the oracle of MERGE by hand, and laws for its output."""

from __future__ import annotations

from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.order.merge import oracle as m

EVER = m.Settings(max_wait_ns=10**15, idle_after_ns=10**15)


def items(line: str) -> list[m.Item]:
    """Parse "at:source ref", and count seq by source.

    A sign before the source: "~" a heartbeat, "!" an end-of-stream marker, "[" blocked, "]"
    unblocked, "-" late already.
    """
    kinds = {"~": m.HEARTBEAT, "!": m.BYE, "[": m.BLOCKED, "]": m.UNBLOCKED}
    result: list[m.Item] = []
    count: dict[str, int] = {}
    for at, rest in (word.split(":") for word in line.split()):
        mark, rest = (rest[0], rest[1:]) if rest[0] in "~![]-" else ("", rest)
        source, ref = rest[0], int(rest[1:] or 0)
        seq = count[source] = count.get(source, -1) + 1
        kind = kinds.get(mark, m.DATA)
        result.append(m.Item(int(at), ref, source, seq, kind=kind, late=mark == "-"))
    return result


def rendered(line: str, settings: m.Settings, until_ns: int | None = None) -> str:
    """Return the output as "at:source ref", with "*" for events that the merge marks late."""
    given = items(line)
    answer = m.merge(given, settings, until_ns=until_ns)
    return " ".join(
        f"{one.at_ns}:{given[one.index].source}{given[one.index].ref_ns}{'*' if one.late else ''}"
        for one in answer.leaving
    )


@pytest.mark.parametrize(
    ("line", "settings", "until_ns", "expected"),
    [
        # Each event of a single source is emitted at the end of its instant.
        ("1:a1 2:a2", EVER, 2, "1:a1 2:a2"),
        ("1:a1 2:a2", EVER, None, "1:a1"),
        # With two sources the smaller head is emitted; events above a's newest wait for a.
        ("1:a1 1:b2 5:b5 7:a6 8:b9", EVER, 8, "1:a1 7:b2 7:b5 8:a6"),
        # The first event of b is too late: a2 has been emitted.
        ("2:a2 3:b1 4:b3 5:a4", EVER, 5, "2:a2 3:b1* 5:b3"),
        # b is ahead of the clock: it is emitted when the clock has reached it.
        ("1:b5 2:a2", EVER, 4, "2:a2"),
        ("1:b5 2:a2", m.Settings(0, 9), 6, "2:a2 5:b5"),
        # Ties are ordered by source, and within a by number.
        ("5:b5 5:a5 5:a5 6:b6 6:a6", EVER, 6, "5:a5 5:a5 6:b5 6:a6"),
        # D_s is max_wait while no delays are known: a9 waits for b until 9 + 20.
        ("9:b8 9:a9", m.Settings(20, 1_000), 28, "9:b8"),
        ("9:b8 9:a9", m.Settings(20, 1_000), 29, "9:b8 29:a9"),
        # Sources are idle after 5: b's last event is at 9, so b is idle at 14.
        ("9:b8 9:a9", m.Settings(20, 5), 13, "9:b8"),
        ("9:b8 9:a9", m.Settings(20, 5), 14, "9:b8 14:a9"),
        # A heartbeat of b frees events below it in tie order; the end-of-stream marker frees all.
        ("9:b8 9:a9 10:~b9", EVER, 12, "9:b8 10:a9"),
        ("9:a8 9:b9 10:~a9", EVER, 12, "9:a8"),
        ("9:b8 9:a9 10:~b10", EVER, 12, "9:b8 10:a9"),
        ("9:b8 9:a9 10:!b8", EVER, 12, "9:b8 10:a9"),
        ("9:b8 9:a9 10:!b8 11:b12 12:a13", EVER, 13, "9:b8 10:a9 12:b12"),
        # If b is blocked, neither D_s nor idle_after frees events; afterwards both count.
        ("9:b8 9:[b 9:a9", m.Settings(20, 15), 49, "9:b8"),
        ("9:b8 9:[b 9:a9 50:]b", m.Settings(20, 15), 50, "9:b8 50:a9"),
        # A source that is catching up delays no other, until one of its events is in time.
        ("9:b8 9:a9 40:b3 41:a30 42:b41 43:a42", m.Settings(20, 100), 44,
         "9:b8 29:a9 40:b3* 41:a30 43:b41"),
        # An event that is late already passes and delays nothing.
        ("1:a1 2:-a0 3:a3", EVER, 3, "1:a1 2:a0 3:a3"),
        # MERGE waits for an expected source until max_wait from the first instant.
        ("5:a5 6:a6", m.Settings(20, 9, expected=("z",)), 24, ""),
        ("5:a5 6:a6", m.Settings(20, 9, expected=("z",)), 25, "25:a5 25:a6"),
        # The printed wait: b's time-out of 3 runs from the instant at which only a has a head.
        ("9:b8 9:a9 11:a10 20:b12 20:a13", m.Settings(20, 9, timeout=lambda *_: 3), 22,
         "9:b8 12:a9 12:a10 20:b12"),
    ],
)  # fmt: skip
def test_oracle_matches_hand_examples(
    line: str, settings: m.Settings, until_ns: int | None, expected: str
) -> None:
    assert rendered(line, settings, until_ns) == expected


def test_end_emits_event_held_by_wait() -> None:
    """The late event reports by how much it is late, and the end emits the one that still waits."""
    given = items("5:a5 6:b3 9:b9 9:a10")
    answer = m.merge(given, EVER, end_ns=10)
    assert [(one.at_ns, one.index, one.late, one.by_ns) for one in answer.leaving] == [
        (5, 0, False, 0),
        (6, 1, True, 2),
        (9, 2, False, 0),
        (10, 3, False, 0),
    ]
    assert answer.held == []
    assert m.merge(given, EVER, until_ns=10).held == [3]


def test_delay_is_known_after_64_samples() -> None:
    settings = m.Settings(max_wait_ns=10_000, idle_after_ns=10**6)

    def wait_for_b(samples_of_b: int) -> int:
        """Return how long a's event waits for b, whose events take 100."""
        given = [m.Item(100 * n + 100, 100 * n, "b", n) for n in range(samples_of_b)]
        given += [m.Item(100 * n + 100, 100 * n, "a", n) for n in range(64 - samples_of_b)]
        given.append(m.Item(100_000, 99_900, "a", 64))
        answer = m.merge(sorted(given, key=lambda item: item.at_ns), settings, until_ns=150_000)
        assert answer.held == []
        return answer.leaving[-1].at_ns - 99_900

    assert wait_for_b(64) == 103  # This is the quantile of b itself.
    assert wait_for_b(10) == 206  # This is twice the stream's quantile.


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds_of_today(10))
def test_law_oracle_emits_in_order(seed: int) -> None:
    """Each item is emitted once, each source in sequence, no ordered event breaks a watermark."""
    rng = Random(seed)
    given = _random_items(rng)
    end_ns = given[-1].at_ns + 100_000
    settings = m.Settings(
        max_wait_ns=rng.choice((0, 50, 500)), idle_after_ns=1_000, heartbeat_ns=20
    )
    answer = m.merge(given, settings, end_ns=end_ns)
    times = [key[0] for key in m.order(given, answer)]
    assert times == sorted(times)
    assert sorted(one.index for one in answer.leaving) == list(range(len(given)))
    instants = [one.at_ns for one in answer.leaving]
    assert instants == sorted(instants)
    for source in "abc":
        own = [given[one.index].seq for one in answer.leaving if given[one.index].source == source]
        assert own == sorted(own)
    assert answer.watermarks
    for at_ns, watermark_ns in answer.watermarks:
        for one in answer.leaving:
            if one.at_ns > at_ns and not one.late:
                assert given[one.index].ref_ns >= watermark_ns
    known = m.Settings(10**15, 10**15, expected=("a", "b", "c"))
    assert list(m.order(given, m.merge(given, known, end_ns=end_ns))) == sorted(
        item.key for item in given
    )
    if settings.max_wait_ns == 0:  # Events are emitted in arrival order, with late marks.
        assert all(one.at_ns == given[one.index].at_ns for one in answer.leaving)


@pytest.mark.parametrize("seed", range(5))
def test_time_shift_shifts_output(seed: int) -> None:
    given = _random_items(Random(seed))
    settings = m.Settings(max_wait_ns=200, idle_after_ns=1_000)
    shifted = [m.Item(item.at_ns + 7, item.ref_ns + 7, item.source, item.seq) for item in given]
    plain = m.merge(given, settings, until_ns=10**6)
    moved = m.merge(shifted, settings, until_ns=10**6 + 7)
    assert [(one.at_ns + 7, one.index, one.late) for one in plain.leaving] == [
        (one.at_ns, one.index, one.late) for one in moved.leaving
    ]


def _random_items(rng: Random) -> list[m.Item]:
    given: list[m.Item] = []
    for source in "abc":
        at_ns = ref_ns = rng.randint(0, 100)
        for seq in range(60):
            ref_ns += rng.choice((0, 1, 10, 100))
            at_ns = max(at_ns, ref_ns + rng.choice((0, 5, 20, 100)))
            given.append(m.Item(at_ns, ref_ns, source, seq))
    return sorted(given, key=lambda item: item.at_ns)
