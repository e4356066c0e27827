"""Defines the words of `Operator.locate`, which reports where an event is in an operator.

An answer is a dict of plain values. `where` is one of the words below, and the other values are
what the operator knows of the reason. CLOCK has no `where`, since no event stays there.

An operator keeps no list of the events that it has emitted. It answers from the data that it needs
to order its sources: the next number, the gaps, the ledger of lost numbers, the newest key. So the
question costs nothing unless it is asked.

| word           | meaning                                                                        |
|----------------|--------------------------------------------------------------------------------|
| `held`         | the event is buffered here                                                     |
| `awaited`      | its number is missing here, and other events wait for it                       |
| `lost`         | its number has been given up; if it comes, it is late                          |
| `passed`       | it was emitted, late or a dead letter: its number is done                      |
| `not_come`     | its number is above all that have been seen                                    |
| `before_start` | the source was taken to start above it                                         |
| `forgotten`    | its number is older than the ledger: passed or lost, which is unknown          |
| `old_epoch`    | a higher epoch of its source has begun, and nothing is known of this one       |
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
