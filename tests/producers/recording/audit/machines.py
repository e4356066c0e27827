"""A seeded plant of machines for audits: copies, holes, overtaking, a restart, a fast clock."""

from __future__ import annotations

from random import Random
from typing import Final

from producers.recording.audit.row import AuditRow

MS: Final = 1_000_000
S: Final = 1_000 * MS
BEGIN_NS: Final = 1_700_000_000 * S
FAST: Final = "press-7"
FAST_BY_NS: Final = 41 * S
RESTARTS: Final = "oven-2"


def plant(
    seed: int, records: int = 3_000, machines: int = 6, period_ns: int = 500 * MS
) -> list[AuditRow]:
    """Rows in order of arrival. Each machine sends about once a period; one in 50 is lost, one in
    40 comes twice, one in 10 is up to 20 s late; `FAST` has a clock 41 s ahead and `RESTARTS`
    counts from 0 again halfway."""
    dice = Random(seed)
    names = [FAST, RESTARTS, *(f"robot-{number}" for number in range(machines - 2))][:machines]
    sent: list[tuple[int, AuditRow]] = []
    each = records // machines
    for name in names:
        at_ns, seq = BEGIN_NS, 0
        for number in range(each):
            at_ns += round(period_ns * (0.5 + dice.random()))
            if name == RESTARTS and number == each // 2:
                at_ns += 30 * S
                seq = 0
            ts_ns = at_ns + (FAST_BY_NS if name == FAST else 0)
            lost = dice.random() < 0.02
            for _ in range(1 + (dice.random() < 0.025)):
                delay_ns = round(5 * MS + dice.expovariate(1) * 10 * MS)
                if dice.random() < 0.1:
                    delay_ns += round(dice.random() * 20 * S)
                arrival_ns = at_ns + delay_ns
                if not lost:
                    sent.append((arrival_ns, AuditRow(name, seq, None, ts_ns, arrival_ns)))
            seq += 1
    sent.sort(key=lambda pair: pair[0])
    return [row._replace(offset=offset) for offset, (_, row) in enumerate(sent)]
