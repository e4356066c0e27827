"""A window, a pattern or a join with `answer: auto`: what leaves as it is found, and what waits
until it is final.

The operator finds as ever, corrects, and tells once more what is final (`build.tells_finals`). So
what each of the two ways would tell is known in either (`topology.speculate.choice`): `early` tells
all of it, `final` the last telling of each result alone. What `early` tells besides is its price,
at `TELL_NS` a telling.

    early    all leaves as it comes
    final    what was not told before waits (`topology.flow.held`); the rest leaves

When the way is `early` again, what waits is told at once, as it is then. Each result stands at
last as the operator's does, whatever waited when. LATE AMEND takes back what was final: such a
query corrects always.

Spans are over at the first result of a later one: so what leaves follows from what is found and
from the load that was told, and not from how the input was cut.

A query whose answer in the file is another than the one it was restored with has but one way, the
file's: `only`.

Proved by: tests/topology/flow/test_held.py, tests/topology/flow/test_answers.py
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from topology.config import QueryConfig
from topology.flow.held import Held
from topology.model.operator import NEVER, Plain
from topology.model.result import EMIT, RETRACT, Finding, Result
from topology.query.numbers import packed as packed_number
from topology.query.numbers import unpacked as unpacked_number
from topology.query.queries import KNOWN_BY_BYTES
from topology.speculate.budget import FADES, SPAN_NS, UNIT
from topology.speculate.choice import Choice, Chosen, Way
from topology.speculate.config import AUTO, EARLY
from topology.speculate.config import FINAL as WAITS
from topology.speculate.policy import WHOLE
from topology.speculate.spending import FULL_PPM

TELL_NS: Final = 20_000
"""What a telling costs: to be written down, sent, and kept by the broker."""
LAST: Final = 256
"""As many results, told before they were final, count for the share of them that is changed; more
where less than a hundredth may be."""
SHARES: Final = 4
"""At least as many of them as one changed one among is a `SHARES`th of what may be."""
MEANS: Final = 64
"""Means over results move by one part of so many."""


class Answering:
    """`known_by`: its name and what it computes; what is kept of another goes. `span`: of its last
    result, -1 before the first. `first_ppm`: what its operator took of a processor before that."""

    def __init__(self, name: str, config: QueryConfig) -> None:
        granted = config.speculate
        self.name = name
        self.config = config
        self.known_by = known_by(name, config)
        withdrawn_ppm = None if granted is None else granted.withdrawn_ppm
        self.choice = Choice(EARLY, withdrawn_ppm)
        self.held = Held()
        self.only = "" if config.answer == AUTO else config.answer
        self._last = max(LAST, SHARES * WHOLE // max(withdrawn_ppm or WHOLE, 1))
        self._granted_ppm = 500_000 if granted is None else granted.share_ppm
        self._amends = config.pattern is not None and config.pattern.amend_ns > 0
        self.span = -1
        self.first_ppm = 0
        self._found = 0
        self._known = [0, 0, 0, 0]
        """In units: spans, and tellings besides the final ones; results told before they were
        final, and changes of these. They fade."""
        self._early_ns = self._final_ns = NEVER

    @property
    def waits(self) -> bool:
        return (self.only or self.choice.answer) == WAITS

    @property
    def owes(self) -> bool:
        """Whether something is held that waits for nothing: the answer has changed."""
        return self.held.results > 0 and not self.waits

    def take(self, result: Result, left: list[Finding]) -> None:
        """What leaves goes into `left`."""
        self._measure(result)
        self.held.take(result, left, waits=self.waits)

    # -- what the ways cost ------------------------------------------------------------------------

    def _measure(self, result: Result) -> None:
        self._found += UNIT
        wait_ns = result.at_ns - result.end_ns
        if result.final and result.op != RETRACT:
            self._final_ns = _moved(self._final_ns, wait_ns)
            if result.op == EMIT:
                self._early_ns = _moved(self._early_ns, wait_ns)
            return
        self._known[1] += UNIT
        if result.op == EMIT:
            self._early_ns = _moved(self._early_ns, wait_ns)
            for at in (2, 3):
                self._known[at] -= self._known[at] // self._last
            self._known[2] += UNIT
        else:
            self._known[3] += UNIT

    def first_at(self, span: int) -> int:
        """The mean until then, of a processor."""
        return self.first_ppm // max(span - self.span, 1)

    def weigh(
        self, now_ns: int, span: int, step_ns: int, others_ppm: int, left: list[Finding]
    ) -> None:
        """A later span has begun. What is told of what waited goes into `left`."""
        passed = span - self.span
        is_first, self.span = self.span < 0, span
        found, self._found = self._found, 0
        if is_first:
            return
        known = self._known
        known[0] += passed * UNIT
        self.first_ppm = found * step_ns * WHOLE // (UNIT * passed * SPAN_NS)
        if not self._amends and not self.only:
            room_ppm = max(min(self._granted_ppm, FULL_PPM - self.first_ppm - others_ppm), 0)
            if self.choice.weigh(now_ns, self._ways(), room_ppm) and self.choice.answer == EARLY:
                self.held.release(now_ns, left)
        for at in (0, 1):
            known[at] -= -(-known[at] // FADES)

    def _ways(self) -> list[Way]:
        """Waits are reckoned from the first telling on."""
        spans, more, told, changed = self._known
        price_ppm = more * TELL_NS * WHOLE // (max(spans, UNIT) * SPAN_NS)
        changed_ppm = min((changed + UNIT) * WHOLE // (told + UNIT), WHOLE)
        waits_ns: int = NEVER
        if self._final_ns < NEVER and self._early_ns < NEVER:
            waits_ns = max(self._final_ns - self._early_ns, 0)
        return [Way(WAITS, waits_ns, 0, 0), Way(EARLY, 0, price_ppm, changed_ppm)]

    @property
    def has_begun(self) -> bool:
        return self.span >= 0

    def explain(self) -> dict[str, Any]:
        chosen: Any = self.choice.explain()
        if self._amends:
            chosen = "corrects always, as it has LATE AMEND"
        elif self.only:
            chosen = f"`{self.only}` since its answer was changed in the file"
        held = self.held
        return {
            "held": held.results,
            "held_bytes": held.size_bytes,
            "told_at_once": held.told_at_once,
            "auto": chosen,
        }

    def chosen(self) -> Chosen:
        """In short."""
        held, choice = self.held, self.choice
        answer = self.only or choice.answer
        return Chosen(
            self.name, answer, choice.changes, held.results, held.size_bytes, held.told_at_once
        )

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> Plain:
        return [
            self.choice.snapshot(),
            self.span,
            self.first_ppm,
            self._found,
            list(self._known),
            packed_number(self._early_ns),
            packed_number(self._final_ns),
        ]

    def restore(self, plain: Plain) -> None:
        choice, self.span, self.first_ppm, self._found, known, early_ns, final_ns = plain
        self.choice.restore(choice)
        self._known = list(known)
        self._early_ns, self._final_ns = unpacked_number(early_ns), unpacked_number(final_ns)

    def take_over(self, before: Answering) -> None:
        """Go on where that one stands, which found the same."""
        self.restore(before.snapshot())
        self.choice.changes = before.choice.changes
        self.held = before.held


def known_by(name: str, config: QueryConfig) -> str:
    digest = blake2b(_meaning(config).encode(), digest_size=KNOWN_BY_BYTES).hexdigest()
    return f"{digest}@{name}"


def _moved(mean_ns: int, wait_ns: int) -> int:
    return wait_ns if mean_ns == NEVER else mean_ns + (wait_ns - mean_ns) // MEANS


def _meaning(config: QueryConfig) -> str:
    """Equal for queries whose results are the same."""
    if config.pattern is not None:
        # The grammar costs much to import, and most files have no pattern that chooses.
        from topology.pattern.language.unparse import unparse

        return unparse(config.pattern)
    window = (config.window, config.aggregate)
    join = (config.join, config.sides, config.outer, config.values)
    return repr((window, join, config.key, config.uncertainty))
