"""Make a seeded plant for audits: duplicates, gaps, disorder, a restart, and a fast clock."""

from __future__ import annotations

from random import Random
from typing import Final

from recordings.audit.row import AuditRow

MS: Final = 1_000_000
S: Final = 1_000 * MS
BEGIN_NS: Final = 1_700_000_000 * S
FAST: Final = "press-7"
FAST_BY_NS: Final = 41 * S
RESTARTS: Final = "oven-2"


def plant(
    seed: int,
    records: int = 3_000,
    machines: int = 6,
    period_ns: int = 500 * MS,
    *,
    lost: float = 0.02,
    copied: float = 0.025,
    late: float = 0.1,
    fast_after: float = 0.0,
) -> list[AuditRow]:
    """Return rows in order of arrival.

    Each machine sends about once a period. `lost`, `copied` and `late` are the shares of rows that
    are lost, arrive twice, or are up to 20 s late. The machine `FAST` has a clock 41 s ahead, after
    the share `fast_after` of the time. `RESTARTS` counts from 0 again halfway.
    """
    dice = Random(seed)
    names = [FAST, RESTARTS, *(f"robot-{number}" for number in range(machines - 2))][:machines]
    sent: list[tuple[int, AuditRow]] = []
    each = records // machines
    for name in names:
        at_ns, seq = BEGIN_NS, 0
        fast_ns = BEGIN_NS + round(fast_after * each * period_ns)
        for number in range(2 * each):
            at_ns += round(period_ns * (0.5 + dice.random()))
            if name == RESTARTS and number == each // 2:
                at_ns += 30 * S
                seq = 0
            if at_ns > BEGIN_NS + each * period_ns:
                break
            ts_ns = at_ns + (FAST_BY_NS if name == FAST and at_ns >= fast_ns else 0)
            is_lost = dice.random() < lost
            for _ in range(1 + (dice.random() < copied)):
                delay_ns = round(5 * MS + dice.expovariate(1) * 10 * MS)
                if dice.random() < late:
                    delay_ns += round(dice.random() * 20 * S)
                arrival_ns = at_ns + delay_ns
                if not is_lost:
                    sent.append((arrival_ns, AuditRow(name, seq, None, ts_ns, arrival_ns)))
            seq += 1
    sent.sort(key=lambda pair: pair[0])
    return [row._replace(offset=offset) for offset, (_, row) in enumerate(sent)]
