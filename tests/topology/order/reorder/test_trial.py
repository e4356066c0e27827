"""Oracle and examples: duplicates, restarts and conflicts of sources that write no epochs.

The oracle is the sender, which knows what it sent: each event once, in runs that restart their
numbers, and duplicates. In the tables, times are in milliseconds; `max_wait` is 50.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from tests.kit.runs import held_after_restart, through_changelog
from tests.kit.scenarios import Table, scenarios
from tests.seeds import seeds_of_today
from topology.base.event import BLOCKED, DATA, NO_EPOCH, UNBLOCKED, Event, copy_event
from topology.base.late import CONFLICT
from topology.base.location import HELD
from topology.base.outcome import Duplicate, Gap, Late, Step
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder
from topology.order.reorder.settings import SeqRange
from topology.order.reorder.trial import MAX_BEHIND, MAX_LATER

MS: Final = 1_000_000
SEEDS: Final = seeds_of_today(10)


def operator(**settings: Any) -> Reorder:
    chosen = {"max_wait": "50ms", "rule": "fixed", "start": "zero", **settings}
    return Reorder("default", ReorderConfig(**chosen))


def record(at: int, seq: int, ts: int, content: str = "", offset: int = 0) -> Event:
    value = content.encode() or None
    return Event("default", "s", NO_EPOCH, seq, ts * MS, at * MS, offset, value=value)


def rendered(step: Step) -> list[str]:
    """Return the lines of a step, like `3`, `1:3` for number 3 of epoch 1, or `conflict 3`."""
    lines = []
    for e in step.released:
        name = e.kind if e.kind in (BLOCKED, UNBLOCKED) else f"{e.seq}"
        name = f"{e.epoch}:{name}" if e.epoch and e.kind == DATA else name
        lines.append(f"{name} (late {e.late})" if e.late else name)
    for report in step.reports:
        if isinstance(report, Late):
            lines.append(f"{report.reason} {report.event.seq}")
        elif isinstance(report, Duplicate):
            lines.append(f"duplicate {report.event.seq}")
        elif isinstance(report, Gap):
            lines.append(f"gap {report.first}-{report.last}")
    return lines


# -- Examples --------------------------------------------------------------------------------------

SCENARIOS = scenarios("""
The same stamp is a copy although it was the newest of all {}
    0 0 0 a -> 0
    1 1 90 b -> 1
    2 2 2 c -> 2
    3 1 90 b -> duplicate 1
    4 3 4 d -> 3
A payload that is rare is a copy with a new stamp {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 2 2 c -> 2
    3 3 3 d -> 3
    4 4 4 e -> 4
    5 5 5 f -> 5
    6 6 6 g -> 6
    7 7 7 h -> 7
    8 5 8 f -> duplicate 5
    9 8 9 i -> 8
A payload that others have proves nothing, but the run goes on {}
    0 0 0 open -> 0
    1 1 1 shut -> 1
    2 2 2 open -> 2
    3 1 3 shut -> blocked
    4 3 4 shut -> 3, conflict 1
The next number of the suspect begins the epoch {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 2 2 c -> 2
    3 0 3 d -> blocked
    4 1 4 e -> 1:0, 1:1
The clock was set back at the restart {}
    0 0 1000 a -> 0
    1 1 1001 b -> 1
    2 2 1002 c -> 2
    3 0 3 d -> blocked
    4 1 4 e -> 1:0, 1:1
    5 2 5 f -> 1:2
Nothing follows, and the stamp is newer than all {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 0 2 c -> blocked
    51
    52 -> 1:0
Nothing follows, and the stamp is not newer {}
    0 0 0 a -> 0
    1 1 10 b -> 1
    2 0 2 c -> blocked
    52 -> unblocked, conflict 0
A counter that stands still loses nothing {}
    0 9 0 a -> blocked
    50 -> 9, gap 0-8
    60 9 60 b -> blocked
    70 9 70 c
    120 -> 1:9, blocked, gap 0-8
    170 -> 2:9, gap 0-8
The end of the old run does not wait {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 0 5 d -> blocked
    3 2 2 c -> 2, blocked
    4 1 6 e -> 1:0, 1:1
What the old run lacks does not wait {}
    0 0 0 a -> 0
    1 3 3 d -> blocked
    2 0 9 e
    3 1 1 b -> 1, blocked
    4 2 2 c -> 2, 3, blocked
    5 1 10 f -> 1:0, 1:1
The second suspect of a minute does not block {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 2 2 c -> 2
    3 1 1 d -> duplicate 1
    4 1 4 e -> blocked
    5 3 5 f -> 3, conflict 1
    6 1 6 g
    7 4 7 h -> 4, conflict 1
    60003 5 60003 i -> 5
    60004 1 60004 j -> blocked
    60005 6 60005 k -> 6, conflict 1
A copy of few numbers begins no epoch, although nothing follows {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 2 2 c -> 2
    30 1 30 b -> blocked
    80 -> unblocked, conflict 1
    200 3 200 d -> 3
A number from amid the run begins none either {}
    0 0 0 a -> 0
    100 1 100 b -> 1
    200 2 200 c -> 2
    300 3 300 d -> 3
    400 4 400 e -> 4
    500 5 500 f -> 5
    600 4 600 x -> blocked
    650 -> unblocked, conflict 4
    700 6 700 g -> 6
A source that sends rarely has restarted with one of its first numbers {}
    0 0 0 a -> 0
    100 1 100 b -> 1
    200 2 200 c -> 2
    300 0 300 d -> blocked
    350 -> 1:0
    400 1 400 e -> 1:1
Runs in one tick of the clock are apart {}
    0 0 0 a -> 0
    1 1 1 b -> 1
    2 2 2 c -> 2
    3 3 3 d -> 3
    10 0 3 e -> blocked
    11 1 4 f -> 1:0, 1:1
    12 2 2 c -> duplicate 2
    13 2 5 g -> 1:2
A run with a clock set back behind two others is told {}
    0 0 1000 a -> 0
    1 1 1001 b -> 1
    60 0 1060 c -> blocked
    61 1 1061 d -> 1:0, 1:1
    120 0 20 e -> old_epoch 0
    121 1 21 f -> old_epoch 1
A number that was given up fills its gap if the run goes on {}
    0 0 0 a -> 0
    1 2 2 c -> blocked
    51 -> 2, gap 1-1
    60 1 60 b -> blocked
    61 3 61 d -> 1 (late gap), 3
""")


@pytest.mark.parametrize(("settings", "rows"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_matches_table(settings: dict[str, Any], rows: Table) -> None:
    reorder = operator(**settings)
    for number, (at, *rest, expected) in enumerate(rows):
        if rest and rest[0] is not None:
            seq, ts, content = rest
            step = reorder.on_batch([record(at, seq, ts, str(content))], at * MS)
        else:
            step = reorder.on_time(at * MS)
        assert rendered(step) == expected, f"line {number} at {at}"


def test_events_after_suspect_are_bounded() -> None:
    reorder = operator()
    for seq in range(3):
        reorder.on_batch([record(seq, seq, seq, f"{seq}")], seq * MS)
    reorder.on_batch([record(3, 0, 3, "new")], 3 * MS)
    for n in range(MAX_BEHIND):
        assert not reorder.on_batch([record(4, 10 + n, 9, f"c{n}")], 4 * MS).reports
    assert reorder.figures()["held"] == MAX_BEHIND + 1
    assert reorder.locate("s", -1, 0) == {
        "where": HELD,
        "arrival": 3 * MS,
        "since": 3 * MS,
        "ts": 3 * MS,
        "reason": "restart",
        "until": 53 * MS,
        "epoch": 0,
        "epoch_in_force": 0,
    }
    step = reorder.on_batch([record(5, 40, 10, "last")], 5 * MS)
    assert rendered(step)[0] == "1:0"
    assert reorder.figures()["epochs_inferred"] == 1


def test_time_decides_on_forgotten_number() -> None:
    reorder = operator()
    for seq in range(300):
        reorder.on_batch([record(seq, seq, seq, f"{seq}")], seq * MS)
    assert rendered(reorder.on_batch([record(300, 43, 1, "x")], 300 * MS)) == ["duplicate 43"]
    assert rendered(reorder.on_batch([record(301, 44, 1, "x")], 301 * MS)) == ["blocked"]
    assert rendered(reorder.on_batch([record(302, 300, 302, "y")], 302 * MS)) == [
        *("300", "conflict 44")
    ]
    assert rendered(reorder.on_batch([record(303, 0, 303, "z")], 303 * MS)) == []
    assert rendered(reorder.on_batch([record(304, 1, 304, "z")], 304 * MS)) == [
        *("blocked", "1:0", "1:1")
    ]


# -- The oracle ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sender:
    """A source that sends `runs` of `n` numbers, which arrive up to `disorder` late.

    A share `copied` comes twice. With `restamped`, a duplicate has the time at which it was sent
    again. With `frequent` there are only two payloads; otherwise all differ. A glitch is a known
    number on another record. With `stuck`, all numbers are 0. A quarter of the records is older
    than its neighbours by `fall`. The first `calm` numbers are in order. The pause before a run is
    one of `gone`.
    """

    runs: int = 1
    n: int = 100
    disorder: int = 20
    copied: float = 0.0
    restamped: bool = False
    frequent: bool = False
    set_back: bool = False
    stuck: bool = False
    glitches: float = 0.0  # The share among three fixed events of a run.
    first: int = 0
    counter: SeqRange | None = None
    fall: int = 0
    calm: int = 0
    gone: tuple[int, ...] = (60, 200, 500)

    def sent(self, rng: Random) -> tuple[list[Event], list[str]]:
        """Return the records in order of arrival, and for each its role.

        The role is `copy`, `glitch` or a place in the truth.
        """
        found: list[tuple[int, int, int, bytes, str]] = []
        ts = now = 10_000
        for run in range(self.runs):
            gone = rng.choice(self.gone) if run else 0
            now += gone
            ts += gone - (rng.choice((100, 3_000)) if self.set_back and run else 0)
            for seq in range(self.n):
                step = rng.choice((2, 5, 9))
                now, ts = now + step, ts + step
                number = 0 if self.stuck else seq + self.first * bool(run)
                if self.counter is not None:
                    number = self.counter.first + number % self.counter.modulus
                place = len(found)
                content = rng.choice((b"open", b"shut")) if self.frequent else b"%d" % place
                at = now + 1 + rng.randint(0, self.disorder if seq >= self.calm else 0)
                sent, ts = ts, ts - (self.fall if rng.random() < 0.25 else 0)
                found.append((at, number, ts, content, f"{run * self.n + seq:06d}"))
                is_amid = 8 <= seq < self.n - 30
                if rng.random() < self.copied and (is_amid or not self.restamped):
                    again = at + rng.randint(1, 40)
                    stamp = again + ts - now if self.restamped else ts
                    found.append((again, number, stamp, content, "copy"))
                if rng.random() < self.glitches and seq in (30, 50, 70):
                    wrong = number - rng.randint(12, 20)
                    found.append((now + 1, wrong, ts, b"glitch%d" % place, "glitch"))
                ts = sent
        found.sort(key=lambda each: each[0])
        events = [
            Event("default", "s", NO_EPOCH, seq, ts * MS, at * MS, offset, value=content)
            for offset, (at, seq, ts, content, _) in enumerate(found)
        ]
        return events, [each[-1] for each in found]


SENDERS: Final = {
    "retransmissions": Sender(copied=0.2),
    "retransmissions of frequent payloads": Sender(copied=0.2, frequent=True),
    "sent again with a new stamp": Sender(copied=0.2, restamped=True),
    "frequent payloads again with a new stamp": Sender(copied=0.1, restamped=True, frequent=True),
    "restarts": Sender(runs=4, n=40, copied=0.1),
    "restarts with frequent payloads": Sender(runs=4, n=40, frequent=True),
    "restarts, and copies with new stamps": Sender(runs=3, n=60, copied=0.1, restamped=True),
    "restarts at a number that came": Sender(runs=3, n=40, first=17, disorder=0),
    "restarts with a clock set back": Sender(runs=2, n=40, set_back=True),
    "a counter that stands still": Sender(n=40, stuck=True, disorder=0),
    "frequent payloads without a counter": Sender(n=40, stuck=True, disorder=0, frequent=True),
    "glitches": Sender(glitches=0.7),
    "a counter that wraps": Sender(n=600, counter=SeqRange(0, 255), copied=0.1, restamped=True),
    "a counter that skips 0": Sender(n=600, counter=SeqRange(1, 255), copied=0.1, restamped=True),
    "restarts of a decimal counter": Sender(runs=3, n=40, counter=SeqRange(0, 99), copied=0.1),
    "a gateway": Sender(copied=0.2, fall=400),
    "a gateway that restarts": Sender(runs=4, n=40, copied=0.1, fall=400),
    "a gateway that restarts after many": Sender(runs=2, n=600, copied=0.1, fall=400),
    "restarts at once": Sender(runs=4, n=40, gone=(0, 1, 3)),
    "restarts after many with a clock set back": Sender(runs=2, n=600, set_back=True),
    "a gateway, and copies with new stamps": Sender(copied=0.1, restamped=True, fall=400),
}


def played(reorder: Reorder, events: Sequence[Event]) -> Step:
    step = Step(0)
    for one in events:
        step.add(reorder.on_batch([one], one.at_ns))
    step.add(reorder.on_end(events[-1].at_ns + 1_000 * MS))
    return step


@pytest.mark.parametrize("start", ["zero", "auto"])
@pytest.mark.parametrize("name", SENDERS)
def test_law_true_events_are_emitted_once(name: str, start: str) -> None:
    """Duplicates and glitches are reported."""
    sender = SENDERS[name]
    for seed in SEEDS:
        events, truth = sender.sent(Random(seed))
        start_of: str | int = "auto" if sender.first else start
        if start_of == "zero" and sender.counter is not None:
            start_of = sender.counter.first
        reorder = operator(start=start_of, seq_range=sender.counter)
        step = played(reorder, events)
        left = [e for e in step.released if e.kind == DATA]
        emitted = [truth[e.offset] for e in left]
        in_order = [truth[e.offset] for e in left if not e.late]
        assert in_order == sorted(in_order), seed
        told: list[str] = []
        for report in step.reports:
            assert isinstance(report, Late | Duplicate), (seed, report)
            is_conflict = isinstance(report, Late) and report.reason == CONFLICT
            assert is_conflict or isinstance(report, Duplicate), (seed, report)
            assert is_conflict or truth[report.event.offset] == "copy", (seed, report)
            told.append(truth[report.event.offset])
        # Without a pause, the end of a run may be late.
        assert sender.gone[0] == 0 or emitted == in_order, seed
        assert sorted(emitted) == sorted(each for each in truth if each.isdigit()), seed
        assert sorted(told) == sorted(each for each in truth if not each.isdigit()), seed
        runs = sender.n if sender.stuck else sender.runs
        assert reorder.figures()["epochs_inferred"] == runs - 1, seed


def test_late_gateway_event_begins_no_epoch() -> None:
    sender = Sender(n=200, disorder=300, copied=0.2, fall=400, calm=20)
    for seed in SEEDS:
        events, truth = sender.sent(Random(seed))
        reorder = operator()
        step = played(reorder, events)
        emitted = [truth[e.offset] for e in step.released if e.kind == DATA]
        assert sorted(emitted) == sorted(each for each in truth if each.isdigit()), seed
        told = [r for r in step.reports if isinstance(r, Late | Duplicate)]
        assert len(told) == truth.count("copy"), seed
        assert reorder.figures()["epochs_inferred"] == 0, seed


@pytest.mark.parametrize("name", ["retransmissions", "restarts", "restarts with frequent payloads"])
def test_replayed_run_is_not_emitted_again(name: str) -> None:
    for seed in SEEDS:
        events, truth = SENDERS[name].sent(Random(seed))
        later_ns = events[-1].arrival_ns + 2_000 * MS
        again = [copy_event(one) for one in events]
        for one in again:
            one.offset += len(events)
            one.arrival_ns += later_ns
            one.at_ns = one.arrival_ns
        step = played(operator(), [*events, *again])
        emitted = [truth[e.offset] for e in step.released if e.kind == DATA]
        assert emitted == sorted(each for each in truth if each.isdigit()), seed
        reports = [each for each in step.reports if isinstance(each, Late | Duplicate)]
        told = [report.event.offset for report in reports]
        assert set(told) >= {one.offset for one in again}, seed


@pytest.mark.parametrize("name", SENDERS)
def test_restart_changes_no_decision(name: str) -> None:
    sender = SENDERS[name]
    for seed in SEEDS[:3]:
        events, _ = sender.sent(Random(seed))
        settings = {
            "seq_range": sender.counter,
            "start": sender.counter.first if sender.counter else 0,
        }
        expected = rendered(played(operator(**settings), [copy_event(one) for one in events]))
        rng, step, reorder = Random(seed), Step(0), operator(**settings)
        table: dict[str, Any] = {}
        for one in [copy_event(one) for one in events]:
            step.add(reorder.on_batch([one], one.at_ns))
            if rng.random() < 0.1:
                for key, value in reorder.changes().items():
                    table[key] = through_changelog(value)
                table = {key: value for key, value in table.items() if value is not None}
                assert table == through_changelog(reorder.snapshot())
                held = held_after_restart(reorder, events, 1 << 60)
                reorder = operator(**settings)
                reorder.restore(table, [*held])
        step.add(reorder.on_end(events[-1].at_ns + 1_000 * MS))
        assert rendered(step) == expected, seed


def hostile(rng: Random, n: int) -> list[Event]:
    """Return events of a sender that is suspected again and again.

    It sends known numbers with new timestamps and contents, numbers far back, and timestamps that
    fall by a nanosecond.
    """
    sent: list[Event] = []
    highest = 0
    for offset in range(n):
        at = 10 * offset
        ts_ns = at * MS - offset % 2
        number = rng.choice((highest + 1, highest + 1, highest, rng.randint(0, highest), 0))
        highest = max(highest, number)
        sent.append(
            Event("default", "s", NO_EPOCH, number, ts_ns, at * MS, offset, value=b"%d" % offset)
        )
    return sent


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_sender_harms_only_itself(seed: int) -> None:
    """Events of the sender are emitted or reported once, with a bounded delay."""
    rng, n = Random(seed), 2_000
    attack = hostile(rng, n)
    others = [
        Event("default", f"o{at % 3}", NO_EPOCH, at // 3, at * 10 * MS, at * 10 * MS + 1, n + at)
        for at in range(n)
    ]
    alone = [e.offset for e in played(operator(), [copy_event(one) for one in others]).released]
    reorder, step = operator(), Step(0)
    ended = Counter[int]()
    for one in sorted([*attack, *others], key=lambda e: e.at_ns):
        step.add(reorder.on_batch([one], one.at_ns))
        assert reorder.figures()["held"] <= MAX_BEHIND + 1
    step.add(reorder.on_end(20 * n * MS))
    assert [e.offset for e in step.released if e.source != "s"] == alone
    left = [e for e in step.released if e.source == "s" and e.kind == DATA]
    places = [(e.epoch, e.seq) for e in left if not e.late]
    assert places == sorted(places), "each epoch is in order"
    assert len({(e.epoch, e.seq) for e in left}) == len(left), "none is emitted twice"
    ended.update(e.offset for e in left)
    ended.update(r.event.offset for r in step.reports if isinstance(r, Late | Duplicate))
    assert ended == Counter(range(n)), "each record ends once"
    # Each suspect before an event, and then its gap, delays it by `max_wait` at most.
    assert max(e.at_ns - e.arrival_ns for e in left) <= (MAX_BEHIND + 1) * 50 * MS


def test_payloads_reveal_a_restart() -> None:
    """Records have no timestamps."""
    reorder, step = operator(), Step(0)
    for at in range(20):
        one = record(at, at % 10, at, f"{at}")
        one.is_stamped = False
        step.add(reorder.on_batch([one], one.at_ns))
    step.add(reorder.on_end(100 * MS))
    assert [e.epoch for e in step.released if e.kind == DATA] == [0] * 10 + [1] * 10
    assert not step.reports


def test_restored_suspect_ignores_its_epoch() -> None:
    """Written epochs are ignored here, so a restore in the middle of a trial changes nothing."""
    rows = [(0, 0, 7), (1, 1, 7), (2, 2, 7), (10, 0, 8), (11, 9, 8), (12, 1, 8), (13, 2, 8)]
    told = []
    for is_restored in (False, True):
        reorder, step = operator(infer_restart=True), Step(0)
        came: list[Event] = []
        for at, seq, epoch in rows:
            one = record(at, seq, at, f"{at}", len(came))
            one.epoch = epoch
            came.append(copy_event(one))
            step.add(reorder.on_batch([one], one.at_ns))
            if is_restored and at == 11:
                held = held_after_restart(reorder, came, 1 << 60)
                state = through_changelog(reorder.snapshot())
                reorder = operator(infer_restart=True)
                reorder.restore(state, [*held])
        step.add(reorder.on_end(500 * MS))
        told.append(rendered(step))
    assert told[0] == told[1]


def test_changes_match_snapshot_after_jump() -> None:
    reorder = operator(start="auto")
    table: dict[str, Any] = {}
    for at, seq in ((0, 3), (1, 4), (2, 1_000_070)):
        reorder.on_batch([record(at, seq, at, f"{at}")], at * MS)
        table |= reorder.changes()
    reorder.on_time(60 * MS)
    table |= reorder.changes()
    assert {key: row for key, row in table.items() if row is not None} == reorder.snapshot()


def test_waiting_epochs_are_bounded() -> None:
    reorder, step = operator(start="auto", max_wait="5s"), Step(0)
    for at in range(400):
        one = record(at // 10, 5 + at % 2, at, f"{at}")
        step.add(reorder.on_batch([one], one.at_ns))
        assert len(reorder._table["s"].later) <= MAX_LATER
    step.add(reorder.on_end(9_000 * MS))
    assert [e.ts_ns // MS for e in step.released if e.kind == DATA] == [*range(400)]
    assert reorder.figures()["overflows"] > 0
