"""Names the rules for when a query may emit, by its `answer` and its `quality`.

    final        up to the finality horizon: no emitted result changes any more
    early        up to the watermark W, as MERGE emits events; late events correct results
    quality      early, and sooner: a later event is improbable enough, or was awaited long
                 enough (`quality_target`)
    speculate    detectors: up to the newest event, less the wait that the load requires
                 (`load_model`; Reliable Speculative Processing, 4 and 4.4)

Each kind of query applies them in its own way:

* Windows, and join rows with a null, use their `Frontier`: results that end at or before its
  `goal_ns` are emitted.
* A pattern emits a match as soon as it is found. A pattern that waits emits the matches that are
  decided before the goal (`Engine.raise_target`). With `answer: final` the goal is the finality
  horizon itself.
* Detectors read up to the goal, and emit the results that they find there.
"""

from __future__ import annotations

from typing import Final, Literal

Answer = Literal["final", "early", "speculate"]

FINAL: Final = "final"
EARLY: Final = "early"
SPECULATE: Final = "speculate"
