"""RULES: up to which instant a query may emit, by its `answer` and its `quality`.

    final        up to the final frontier: nothing that is emitted changes any more
    early        up to the watermark W, as MERGE lets events go; what comes late corrects
    quality      early, and sooner: what comes later is improbable enough, or has been waited for
                 long enough (`quality_target`)
    speculate    a detector's: up to the newest event, less the wait that the load allows
                 (`load_model`; Reliable Speculative Processing, 4 and 4.4)
    auto         a detector's: the one of `final`, `early` and `speculate` that emits soonest for
                 what it may cost (`choice`)

One class decides it for each rule, from the frontier: W and its error, what is final, the newest
event. It is the operator's `goal`; nothing else decides when a result may be emitted. What was
emitted stays corrected, whatever the goal is.

* Windows and rows with a null ask their `Frontier`, which has a rule: what ends at or before its
  `goal_ns` is emitted.
* A pattern emits a match as soon as it is found, unless its query waits: then what is decided
  before the goal (`Engine.raise_target`). With `answer: final` that is the frontier itself.
* Detectors read up to the goal, and emit what they find there.
"""

from __future__ import annotations

from typing import Final, Literal

from topology.model.native import mypyc_attr

Answer = Literal["final", "early", "speculate", "auto"]

FINAL: Final = "final"
EARLY: Final = "early"
SPECULATE: Final = "speculate"
AUTO: Final = "auto"

AHEAD: Final = frozenset({SPECULATE, AUTO})
"""Answers for which events are taken before the merge."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Rule:
    """`why`: what the goal is, in words for people."""

    why = ""

    def goal_ns(self, watermark_ns: int, passed_ns: int, final_ns: int) -> int:
        """What ends at or before it may be emitted. `passed_ns`: nothing that may lie before it
        comes in order any more; `final_ns`: nor out of order. May fall; a goal never does."""
        raise NotImplementedError


class WhenFinal(Rule):
    why = "the final frontier"

    def goal_ns(self, watermark_ns: int, passed_ns: int, final_ns: int) -> int:
        return final_ns


class WhenPassed(Rule):
    """`answer: early`."""

    why = "the watermark"

    def goal_ns(self, watermark_ns: int, passed_ns: int, final_ns: int) -> int:
        return passed_ns
