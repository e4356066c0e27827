"""Windows, patterns and joins with `answer: auto`: what leaves as it is found, and what waits until
it is final.

The operator finds as ever, corrects, and tells once more what is final (`build.tells_finals`). So
what each of the two ways would tell is known in either (`topology.speculate.choice`): `early` tells
all of it, `final` the last telling of each result alone. What `early` tells besides is its price,
at `TELL_NS` a telling.

    early    all leaves as it comes
    final    what was not told before is held; of what was, updates are; retracts and what is final
             leave

When the way is `early` again, what is held is told at once, as it is then. Each result stands at
last as the operator's does, whatever was held when: its telling that is final always leaves, and so
do retracts of what was told. Revisions of a result of which something was held are counted anew,
without a hole; those of all others are the operator's, and nothing is kept for them.

Results are taken in the order of their instants, and spans are over at the first of a later one: so
what leaves follows from what is found and from the load that was told, and not from how the input
was cut.

A set of matches says in an update what has joined it, so its updates are not held. LATE AMEND takes
back what was final: such a query corrects always.

Bounds: `MAX_HELD` results of a query; what comes beyond is told as it comes. A result that was
taken back before it was told is forgotten, from the oldest, when there are as many of these; should
it come again, its revisions begin with another number than 0.

Cost: a microsecond for a result; nothing in a stage without such queries.

Proved by: tests/topology/flow/test_answers.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import Any, Final

from topology.config import QueryConfig
from topology.config.stages import DETECTOR
from topology.model.operator import NEVER, Changes, Plain, State
from topology.model.result import (
    EMIT,
    RETRACT,
    UPDATE,
    Finding,
    JoinResult,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    Partner,
    Result,
    WindowResult,
)
from topology.query.numbers import packed as packed_number
from topology.query.numbers import unpacked as unpacked_number
from topology.query.queries import KNOWN_BY_BYTES, SEPARATOR
from topology.speculate.budget import FADES, FULL_PPM, UNIT
from topology.speculate.choice import Choice, Way
from topology.speculate.config import AUTO, EARLY
from topology.speculate.config import FINAL as WAITS
from topology.speculate.outlook import SPAN_NS
from topology.speculate.policy import WHOLE
from topology.speculate.values import packed, unpacked

TELL_NS: Final = 20_000
"""What a telling costs: to be written down, sent, and kept by the broker."""
MAX_HELD: Final = 10_000
LAST: Final = 256
"""As many results, told before they were final, count for the share of them that is changed."""
MEANS: Final = 64
"""Means over results move by one part of so many."""

CHOSEN: Final = "auto/"
HELD: Final = "held/"

PARTS: Final = {each.__name__: each for each in (Member, MemberRange, Partner)}
SHAPES: Final = {
    each.__name__: each for each in (WindowResult, MatchResult, MatchSetResult, JoinResult)
}
FIELDS: Final = {name: [each.name for each in fields(shape)] for name, shape in SHAPES.items()}


def query_of(key: str) -> str | None:
    """Whose choice, or which one's held result, a key of the state holds; None for other keys."""
    begin = CHOSEN if key.startswith(CHOSEN) else HELD
    known_by = key[len(begin) :].partition(SEPARATOR)[0]
    return known_by.partition("@")[2] if key.startswith(begin) else None


class Waiting:
    """A result of which something was held. `revision`: of what was told last, -1 for nothing;
    `is_told`: that stands; `result`: what waits, None if nothing does."""

    __slots__ = ("is_told", "result", "revision")

    def __init__(self, revision: int, result: Result | None, *, is_told: bool) -> None:
        self.revision = revision
        self.is_told = is_told
        self.result = result


class Answering:
    """`known_by`: its name and what it computes; what is kept of another goes."""

    def __init__(self, name: str, config: QueryConfig) -> None:
        granted = config.speculate
        self.config = config
        digest = blake2b(_meaning(config).encode(), digest_size=KNOWN_BY_BYTES).hexdigest()
        self.known_by = f"{digest}@{name}"
        self.choice = Choice(EARLY, None if granted is None else granted.withdrawn_ppm)
        self.waiting: dict[str, Waiting] = {}
        self.changed: dict[str, None] | None = None
        """Ids of which `waiting` says something else than when this was last emptied; None:
        nobody asks."""
        self._taken_back: dict[str, None] = {}
        """Ids: nothing of them is told, and nothing waits."""
        self._granted_ppm = 500_000 if granted is None else granted.share_ppm
        self._amends = config.pattern is not None and config.pattern.amend_ns > 0
        self._span = -1
        self._found = 0
        self._first_ppm = 0
        self._known = [0, 0, 0, 0]
        """In units: spans, and tellings besides the final ones; results told before they were
        final, and changes of these. They fade."""
        self._early_ns = self._final_ns = NEVER
        self._now_ns = 0

    def take(self, result: Result, left: list[Finding], step_ns: int, others_ppm: int) -> None:
        """What leaves goes into `left`."""
        span = result.at_ns // SPAN_NS
        if span > self._span:
            self._weigh(result.at_ns, span, step_ns, others_ppm, left)
        self._now_ns = result.at_ns
        self._measure(result)
        waits = self.choice.answer == WAITS
        known = self.waiting.get(result.id)
        if known is not None:
            self._take_again(known, result, left, waits=waits)
        elif not waits or result.final or result.op == RETRACT or _is_joined(result):
            left.append(result)
        elif len(self.waiting) < MAX_HELD or self._forget_one():
            is_told = result.op == UPDATE
            self.waiting[result.id] = Waiting(result.revision - 1, result, is_told=is_told)
            self._note(result.id)
        else:
            left.append(result)

    def _take_again(
        self, known: Waiting, result: Result, left: list[Finding], *, waits: bool
    ) -> None:
        id_, revision = result.id, result.revision
        self._note(id_)
        self._taken_back.pop(id_, None)
        if result.op == RETRACT:
            known.result = None
            if known.is_told:
                _tell(known, result, RETRACT, left)
            else:
                self._taken_back[id_] = None
        elif not waits or result.final or (known.is_told and _is_joined(result)):
            _tell(known, result, UPDATE if known.is_told else EMIT, left)
        else:
            known.result = result
        if result.final or (known.result is None and known.revision == revision):
            self._forget(id_)  # final, or as the operator counts again

    def _note(self, id_: str) -> None:
        if self.changed is not None:
            self.changed[id_] = None

    def _forget(self, id_: str) -> None:
        del self.waiting[id_]
        self._taken_back.pop(id_, None)
        self._note(id_)

    def _forget_one(self) -> bool:
        """The oldest that was taken back before it was told, if there is one."""
        for id_ in self._taken_back:
            self._forget(id_)
            return True
        return False

    def _release(self, now_ns: int, left: list[Finding]) -> None:
        for id_, known in list(self.waiting.items()):
            result = known.result
            if result is not None:
                revision = result.revision
                result.at_ns = now_ns
                _tell(known, result, UPDATE if known.is_told else EMIT, left)
                self._note(id_)
                if known.revision == revision:
                    self._forget(id_)

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
                self._known[at] -= self._known[at] // LAST
            self._known[2] += UNIT
        else:
            self._known[3] += UNIT

    def _weigh(
        self, now_ns: int, span: int, step_ns: int, others_ppm: int, left: list[Finding]
    ) -> None:
        passed = span - self._span
        is_first, self._span = self._span < 0, span
        found, self._found = self._found, 0
        if is_first:
            return
        known = self._known
        known[0] += passed * UNIT
        self._first_ppm = found * step_ns * WHOLE // (UNIT * passed * SPAN_NS)
        if not self._amends:
            room_ppm = max(min(self._granted_ppm, FULL_PPM - self._first_ppm - others_ppm), 0)
            if self.choice.weigh(now_ns, self._ways(), room_ppm) and self.choice.answer == EARLY:
                self._release(now_ns, left)
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
        return self._span >= 0

    def explain(self) -> dict[str, Any]:
        held = sum(each.result is not None for each in self.waiting.values())
        chosen = "corrects always, as it has LATE AMEND" if self._amends else self.choice.explain()
        return {"held": held, "auto": chosen}

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> Plain:
        return [
            self.choice.snapshot(),
            self._span,
            self._found,
            list(self._known),
            packed_number(self._early_ns),
            packed_number(self._final_ns),
        ]

    def restore(self, plain: Plain) -> None:
        choice, self._span, self._found, known, early_ns, final_ns = plain
        self.choice.restore(choice)
        self._known = list(known)
        self._early_ns, self._final_ns = unpacked_number(early_ns), unpacked_number(final_ns)

    def key_of(self, id_: str) -> str:
        """Under which a result is kept."""
        return f"{HELD}{self.known_by}{SEPARATOR}{id_}"

    def dump(self, id_: str) -> Plain:
        """None if nothing is held of it."""
        each = self.waiting.get(id_)
        if each is None:
            return None
        result = None if each.result is None else _dumped(each.result)
        return [each.revision, each.is_told, result]

    def load(self, id_: str, plain: Plain) -> None:
        revision, is_told, result = plain
        kept = None if result is None else _loaded(result)
        self.waiting[id_] = Waiting(revision, kept, is_told=is_told)
        if kept is None and not is_told:
            self._taken_back[id_] = None


class Answers:
    """All such queries of a stage with these operators."""

    def __init__(self, queries: Mapping[str, QueryConfig], operators: Collection[str]) -> None:
        self._operators = frozenset(operators) - {DETECTOR}
        self._queries: dict[str, Answering] = {}
        self._gone: dict[str, None] = {}
        self._step_ns = self._others_ppm = 0
        self.items = 0
        """Found, of all of them."""
        self.set_queries(queries)

    def set_queries(self, queries: Mapping[str, QueryConfig]) -> None:
        """What is the same is kept as it stands."""
        before, self._queries = self._queries, {}
        for name, query in queries.items():
            if query.answer == AUTO and query.kind in self._operators:
                known = before.get(name)
                is_same = known is not None and known.config == query
                self._queries[name] = known if known and is_same else Answering(name, query)
        for name, answering in before.items():
            if self._queries.get(name) is not answering:
                self._gone[CHOSEN + answering.known_by] = None
                for id_ in [*answering.waiting, *(answering.changed or ())]:
                    self._gone[answering.key_of(id_)] = None

    def __bool__(self) -> bool:
        return bool(self._queries)

    def items_cost(self, step_ns: int, others_ppm: int = 0) -> None:
        """What the driver has measured: what the stage takes of the processor for each finding, and
        what else is done there."""
        self._step_ns, self._others_ppm = step_ns, others_ppm

    def of(self, found: Iterable[Finding]) -> list[Finding]:
        """What leaves of it, in the order of instants."""
        left: list[Finding] = []
        for each in found:
            answering = self._queries.get(each.query)
            if answering is None or isinstance(each, Overflow):
                left.append(each)
            else:
                self.items += 1
                answering.take(each, left, self._step_ns, self._others_ppm)
        return left

    def explain(self) -> dict[str, Any]:
        return {name: each.explain() for name, each in self._queries.items()}

    def _begun(self) -> list[Answering]:
        """Those of which something was found. A query finds things in one stage alone, and in the
        history of one group of streams (`topology.flow.replay`)."""
        return [each for each in self._queries.values() if each.has_begun]

    def snapshot(self) -> State:
        state: State = {}
        for each in self._begun():
            state[CHOSEN + each.known_by] = each.snapshot()
            for id_ in each.waiting:
                state[each.key_of(id_)] = each.dump(id_)
        return state

    def changes(self) -> Changes:
        changes: Changes = dict(self._gone)
        self._gone = {}
        for each in self._begun():
            changes[CHOSEN + each.known_by] = each.snapshot()
            changed = each.waiting if each.changed is None else each.changed
            for id_ in changed:
                changes[each.key_of(id_)] = each.dump(id_)
            each.changed = {}
        return changes

    def restore(self, state: Mapping[str, Plain]) -> dict[str, Plain]:
        """Take what is its own, and give back the rest. What is of a query that is no more goes
        with the next changes."""
        known = {each.known_by: each for each in self._queries.values()}
        rest: dict[str, Plain] = {}
        for key, plain in state.items():
            name, _, id_ = key[len(HELD) :].rpartition(SEPARATOR)
            if key.startswith(CHOSEN) and key[len(CHOSEN) :] in known:
                known[key[len(CHOSEN) :]].restore(plain)
            elif key.startswith(HELD) and name in known:
                known[name].load(id_, plain)
            else:
                rest[key] = plain
        for each in self._queries.values():
            each.changed = {}
        return rest


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


def _is_joined(result: Result) -> bool:
    return isinstance(result, MatchSetResult) and result.op == UPDATE


def _tell(known: Waiting, result: Result, op: str, left: list[Finding]) -> None:
    known.revision += 1
    known.is_told, known.result = op != RETRACT, None
    result.op, result.revision = op, known.revision
    left.append(result)


def _dumped(result: Result) -> Plain:
    names = FIELDS[type(result).__name__]
    return [type(result).__name__, *[packed(getattr(result, name), PARTS) for name in names]]


def _loaded(plain: Plain) -> Result:
    shape, *parts = plain
    result: Result = SHAPES[shape](*[unpacked(each, PARTS) for each in parts])
    return result
