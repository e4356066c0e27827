"""Where an event is that has come into an operator: the words of `Operator.locate`.

An answer is a dict of plain values. `where` is one of the words below (CLOCK, where nothing stays,
has none), and beside it is what the operator knows of the reason. An operator keeps no list of
what it has let go: it answers from what orders its sources anyway (the next number, the holes, the
ledger of lost numbers, the newest key), so the question costs nothing before it is asked.

| word           | what is so                                                                     |
|----------------|--------------------------------------------------------------------------------|
| `held`         | the event is here and waits                                                    |
| `awaited`      | its number is missing here, and others wait for it                             |
| `lost`         | its number has been given up; should it come, it is late                       |
| `passed`       | it has been let go, or was late or dead: its number is done with               |
| `not_come`     | its number is above all that have been seen                                    |
| `before_start` | the source was taken to start above it                                         |
| `forgotten`    | its number is older than the ledger: passed or lost, nobody knows any more     |
| `old_epoch`    | a higher epoch of its source has begun, and of this one nothing is known       |
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
