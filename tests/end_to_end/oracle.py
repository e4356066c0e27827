"""Oracle of the output: it compares the ordered topic with the raw topic, record by record.

Faults are sentences, and a sound topic has none. These properties of the ordered topic are checked:

* Every accepted event was emitted once, with its key and value, or is a dead letter, or is in the
late topic.

* Each source whose timestamps rise is in sequence. Each stream is in the order of (refTs, source,
epoch, seq), except for records marked late.

* No unmarked event is below an announced watermark W; C <= W; neither ever falls.

* Gaps do not overlap, and every number missing inside a source's range is in one.

* The counts balance: raw = unmarked + marked + late topic + duplicates + dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Setting

Name = tuple[str, int, int]
SHOWN = 5


@dataclass
class Verdict:
    raw: int = 0
    accepted: int = 0
    unmarked: int = 0
    late: Counter[str] = field(default_factory=Counter)
    side: int = 0
    dead: int = 0
    duplicates: int = 0
    gaps: int = 0
    watermarks: int = 0
    repeated: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = (
            f"raw {self.raw} = {self.unmarked} in order + {sum(self.late.values())} late"
            f" {dict(self.late)} + {self.side} aside + {self.duplicates} duplicates"
            f" + {self.dead} dead; {self.gaps} gaps, {self.watermarks} watermarks"
        )
        return "; ".join([told, *self.faults])


class Evidence(NamedTuple):
    """Records from one application's topics, each partition in log order."""

    raw: list[Read]
    ordered: list[Read]
    late: list[Read]
    dead: list[Read]
    gaps: list[Read]


def check(
    setting: Setting, *, repeats: bool = False, as_ours: Callable[[Read], Read] = lambda raw: raw
) -> Verdict:
    """Read the application's topics, and check them.

    `as_ours` gives a raw record the headers that its producer left out.
    """
    topics = setting.topology.topics
    names = (setting.raw, setting.ordered, topics.late, topics.dead, topics.gaps)
    raw, *others = (read_all(setting.bootstrap, name) for name in names)
    return checked(Evidence([*map(as_ours, raw)], *others), repeats)


def assert_sound(setting: Setting, **how: Any) -> Verdict:
    """Assert that nothing is wrong with the application's topics."""
    verdict = check(setting, **how)
    print(verdict)
    assert not verdict.faults, verdict
    return verdict


def checked(evidence: Evidence, repeats: bool = False) -> Verdict:
    """Return the verdict on the evidence.

    With `repeats` (at_least_once) a record can be emitted again, and the first one counts.
    """
    verdict = Verdict(len(evidence.raw), side=len(evidence.late), dead=len(evidence.dead))
    first = _accepted(_named(evidence.raw))
    verdict.accepted = len(first)
    _check_once(verdict, first, evidence, repeats)
    falling = _falling(first)
    for place in sorted({_order_of(record) for record in evidence.ordered}):
        records = [record for record in evidence.ordered if _order_of(record) == place]
        _check_order(verdict, records, repeats, falling)
    gaps = [orjson.loads(record.value or b"") for record in evidence.gaps]
    _check_gaps(verdict, first, gaps, repeats)
    return verdict


def _order_of(record: Read) -> tuple[int, str]:
    """Return the partition and the stream of a record.

    Streams that are joined share a partition, each in its own order.
    """
    return record.partition, record.header("streamId") or "default"


def _named(raw: Iterable[Read]) -> list[Read]:
    """Return the records whose source and number can be read; the others are dead letters."""
    named = []
    for record in raw:
        source, seq = record.header("sourceId"), record.header("seqNum")
        if source and seq and seq.isdigit():
            named.append(record)
    return named


def _accepted(named: Iterable[Read]) -> dict[Name, Read]:
    """Return the first record of each event."""
    first: dict[Name, Read] = {}
    for record in named:
        first.setdefault(record.name, record)
    return first


def _check_once(
    verdict: Verdict, first: dict[Name, Read], evidence: Evidence, repeats: bool
) -> None:
    raw, late, dead = evidence.raw, evidence.late, evidence.dead
    events = [record for record in evidence.ordered if not record.is_control]
    seen = Counter(record.name for record in events)
    again = {name: count for name, count in seen.items() if count > 1}
    verdict.repeated = sum(again.values()) - len(again)
    if again and not repeats:
        verdict.faults.append(f"{len(again)} events came out more than once: {_some(again)}")
    letters = [orjson.loads(record.value or b"") for record in dead]
    aside = {record.name for record in late}
    aside |= {(d["source"], d["epoch"] or 0, d["seq"]) for d in letters}
    missing = [name for name in first if name not in seen and name not in aside]
    if missing:
        verdict.faults.append(f"{len(missing)} accepted events did not come out: {_some(missing)}")
    strange = [name for name in seen if name not in first]
    if strange:
        verdict.faults.append(f"{len(strange)} events were never sent: {_some(strange)}")
    changed = [r.name for r in events if not _same(r, first.get(r.name))]
    if changed:
        verdict.faults.append(f"{len(changed)} events lost key or value: {_some(changed)}")
    # A dead letter or late event accounts for its raw record; the rest are duplicates.
    nameless = [letter for letter in letters if letter["source"] is None or letter["seq"] is None]
    named = len(_named(raw))
    if len(raw) - named != len(nameless):
        verdict.faults.append(
            f"the balance is off: {len(raw) - named} unreadable records, {len(nameless)} letters"
        )
    out = len(seen) + len(late) + len(letters) - len(nameless)
    verdict.duplicates = named - out
    if not 0 <= verdict.duplicates <= named - len(first):
        verdict.faults.append(
            f"the balance is off: {out} came out of {named}, of which {len(first)} are different"
        )


def _same(record: Read, raw: Read | None) -> bool:
    return raw is None or (record.key, record.value) == (raw.key, raw.value)


def _falling(first: dict[Name, Read]) -> set[str]:
    """Return the sources whose own timestamps fall from one number to a later one."""
    newest: dict[str, int] = {}
    found = set()
    for name in sorted(first):
        source, ts = name[0], first[name].header("ts")
        if ts and ts.isdigit():
            if int(ts) < newest.get(source, 0):
                found.add(source)
            newest[source] = max(newest.get(source, 0), int(ts))
    return found


def _check_order(
    verdict: Verdict, records: Sequence[Read], repeats: bool, falling: Collection[str]
) -> None:
    """Check one stream, in log order."""
    newest: dict[str, tuple[int, int]] = {}
    last: tuple[int, str, int, int] | None = None
    watermark = complete = -(1 << 63)
    seen: set[Name] = set()
    for record in records:
        place = f"{record.partition}/{record.offset}"
        if record.is_control:
            verdict.watermarks += 1
            w, c = record.number("refTs"), record.number("complete")
            if (w < watermark or c < complete) and not repeats:
                verdict.faults.append(f"{place}: W or C fell: {w}, {c}")
            if c > w:
                verdict.faults.append(f"{place}: C {c} is above W {w}")
            watermark, complete = max(watermark, w), max(complete, c)
            continue
        name = record.name
        if repeats and name in seen:
            continue
        seen.add(name)
        reason = record.header("late")
        if reason is not None:
            verdict.late[reason] += 1
            continue
        verdict.unmarked += 1
        source, epoch, seq = name
        ref_ns = record.number("refTs")
        key = (ref_ns, source, epoch, seq)
        if newest.get(source, (-1, -1)) >= (epoch, seq) and source not in falling:
            verdict.faults.append(f"{place}: {name} after {newest[source]} of its source")
        if last is not None and key <= last:
            verdict.faults.append(f"{place}: {key} after {last}")
        if ref_ns < watermark:
            verdict.faults.append(f"{place}: {key} below the watermark {watermark}")
        newest[source] = (epoch, seq)
        last = key
    del verdict.faults[20:]


def _check_gaps(
    verdict: Verdict, first: dict[Name, Read], gaps: Sequence[dict[str, int]], repeats: bool
) -> None:
    verdict.gaps = len(gaps)
    declared: Counter[Name] = Counter()
    for gap in gaps:
        for number in range(gap["first"], gap["last"] + 1):
            declared[(str(gap["source"]), gap["epoch"], number)] += 1
    twice = [name for name, count in declared.items() if count > 1]
    if twice and not repeats:
        verdict.faults.append(f"{len(twice)} numbers were declared missing twice: {_some(twice)}")
    edges: dict[tuple[str, int], tuple[int, int]] = {}
    for source, epoch, seq in first:
        low, high = edges.get((source, epoch), (seq, seq))
        edges[source, epoch] = (min(low, seq), max(high, seq))
    untold = [
        (source, epoch, seq)
        for (source, epoch), (low, high) in edges.items()
        if high - low < 10**6
        for seq in range(low, high)
        if (source, epoch, seq) not in first and (source, epoch, seq) not in declared
    ]
    if untold:
        verdict.faults.append(f"{len(untold)} missing numbers are in no gap: {_some(untold)}")


def _some(found: Iterable[object]) -> str:
    return ", ".join(str(one) for one, _ in zip(found, range(SHOWN), strict=False))
