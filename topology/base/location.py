"""Defines the words of `Operator.locate`, which reports where an event is in an operator.

An answer is a dict of plain values. `where` is one of the words below. The other values are the
details that the operator knows. CLOCK has no `where`, since it holds no events.

An operator keeps no list of the events that it has emitted. It answers from the data that it needs
to order its sources: the next number, the gaps, the ledger of lost numbers, the newest key. So
`locate` costs nothing unless it is called.

| word           | meaning                                                                        |
|----------------|--------------------------------------------------------------------------------|
| `held`         | the event is buffered here                                                     |
| `awaited`      | its number is missing here, and later events are buffered until it arrives     |
| `lost`         | its number has been given up; if the event arrives, it is late                 |
| `passed`       | it was emitted, or it is late or a dead letter: its number is finished         |
| `not_come`     | its number is above all numbers seen before                                    |
| `before_start` | its number is below the first number of its source                             |
| `forgotten`    | its number is older than the ledger, so it may be passed or lost               |
| `old_epoch`    | a higher epoch of its source has begun, and nothing is known about this one    |
"""

from __future__ import annotations

from typing import Final

HELD: Final = "held"
AWAITED: Final = "awaited"
LOST: Final = "lost"
PASSED: Final = "passed"
NOT_COME: Final = "not_come"
BEFORE_START: Final = "before_start"
FORGOTTEN: Final = "forgotten"
OLD_EPOCH: Final = "old_epoch"
