"""RULES: up to which instant a query may emit, by its `answer` and its `quality`.

    final        up to the final frontier: nothing that is emitted changes any more
    early        up to the watermark W, as MERGE lets events go; what comes late corrects
    quality      early, and sooner: what comes later is improbable enough, or has been waited for
                 long enough (`quality_target`)
    speculate    a detector's: up to the newest event, less the wait that the load allows
                 (`load_model`; Reliable Speculative Processing, 4 and 4.4)

Nothing else decides when a result may be emitted. What was emitted stays corrected, whatever the
goal is.

* Windows and rows with a null ask their `Frontier`: what ends at or before its `goal_ns` is
  emitted.
* A pattern emits a match as soon as it is found, unless its query waits: then what is decided
  before the goal (`Engine.raise_target`). With `answer: final` that is the frontier itself.
* Detectors read up to the goal, and emit what they find there.
"""

from __future__ import annotations

from typing import Final, Literal

Answer = Literal["final", "early", "speculate"]

FINAL: Final = "final"
EARLY: Final = "early"
SPECULATE: Final = "speculate"
