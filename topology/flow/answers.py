"""What leaves a stage of what its windows, patterns and joins find, by each query's `answer`.

    early    all as it comes
    final    what can no longer change (`topology.flow.finals`)
    auto     either, as it chooses (`topology.flow.answering`)

A restart may change a query's answer. What waited then is told with the next step, or waits on; and
a query that has told before it was final, and is not to any more, goes on with the ledger of one
that chooses: updates of what was told leave, new results wait. One that was `final` has kept no
account of what it did not tell, so it cannot be told otherwise: its state is refused
(`AnswerChanged`). A live query stays `final` then, also at a restart, and says so (`kept`): a
record that anybody may write ends no stage. A state says of its queries which of them were `final`
from the beginning.

Results are taken in the order of their instants. Queries that choose share the processor: what the
operators of all of them take is not there for any.

Cost: nothing in a stage without such queries.

Proved by: tests/topology/flow/test_answers.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from topology.config import QueryConfig
from topology.config.stages import DETECTOR
from topology.flow.answering import Answering, known_by
from topology.flow.finals import only_final
from topology.model.operator import NEVER, Changes, Plain, State
from topology.model.result import Finding, Overflow
from topology.query.queries import SEPARATOR
from topology.speculate.budget import SPAN_NS
from topology.speculate.choice import Chosen
from topology.speculate.config import AUTO
from topology.speculate.config import FINAL as WAITS

CHOSEN: Final = "\n\nauto/"
HELD: Final = "\n\nheld/"
"""No name of a stream is empty, so no node's keys begin so (`topology.flow.node`)."""


class AnswerChanged(Exception):
    """The message says of which query, and what to do."""


def query_of(key: str) -> str | None:
    """Whose choice, or which one's held result, a key of the state holds; None for other keys."""
    begin = CHOSEN if key.startswith(CHOSEN) else HELD
    whose = key[len(begin) :].partition(SEPARATOR)[0]
    return whose.partition("@")[2] if key.startswith(begin) else None


def stays_final(before: QueryConfig, now: QueryConfig, name: str) -> str:
    """Why a live query is not replaced by that one of its name; nothing, if it may be."""
    if before.answer != WAITS or now.answer == WAITS:
        return ""
    return _refusal(now) if known_by(name, before) == known_by(name, now) else ""


class Answers:
    """All queries of a stage with these operators; `queries` are those of the file."""

    def __init__(self, queries: Mapping[str, QueryConfig], operators: Collection[str]) -> None:
        self._operators = frozenset(operators) - {DETECTOR}
        self._of_file = frozenset(queries)
        self.kept: dict[str, str] = {}
        """Live queries that stay `final`, by name, with the reason."""
        self._configs: dict[str, QueryConfig] = {}
        self._queries: dict[str, Answering] = {}
        self._finals: dict[str, str] = {}
        """By `known_by`, the names of those that are final from the beginning."""
        self._final_names: frozenset[str] = frozenset()
        self._said: dict[str, None] = {}
        """Those of `_finals` that the changes have told."""
        self._gone: dict[str, None] = {}
        self._step_ns = self._others_ppm = 0
        self.items = 0
        """Found, of all of them."""
        self.set_queries(queries)

    def set_queries(self, queries: Mapping[str, QueryConfig]) -> None:
        """What finds the same goes on where it stands."""
        configs = self._configs
        before, self._queries = self._queries, {}
        finals, self._finals = self._finals, {}
        self._configs = {n: each for n, each in queries.items() if each.kind in self._operators}
        for name, query in self._configs.items():
            known = before.get(name)
            if known is not None and known.config == query:
                self._queries[name] = known
            elif known is not None or query.answer in {AUTO, WAITS} or name in finals.values():
                self._set_anew(name, query, known, finals, configs)
        self._final_names = frozenset(self._finals.values())
        self.kept = {}
        for name in self._final_names:
            self._keep(name)
        for whose in finals:
            if whose not in self._finals:
                self._gone[CHOSEN + whose] = None
                self._said.pop(whose, None)
        kept = {each.known_by for each in self._queries.values()}
        for each in before.values():
            if each.known_by not in kept:
                self._gone[CHOSEN + each.known_by] = None
                for id_ in [*each.held.waiting, *(each.held.changed or ())]:
                    self._gone[_key_of(each, id_)] = None

    def _set_anew(
        self,
        name: str,
        query: QueryConfig,
        known: Answering | None,
        finals: Mapping[str, str],
        configs: Mapping[str, QueryConfig],
    ) -> None:
        whose = known_by(name, query)
        if known is not None and known.known_by == whose:
            self._queries[name] = Answering(name, query)
            self._queries[name].take_over(known)
        elif whose in finals:
            self._finals[whose] = name
        elif query.answer == AUTO:
            self._queries[name] = Answering(name, query)
        elif query.answer == WAITS:
            was = configs.get(name)
            if was is None or known_by(name, was) != whose:
                self._finals[whose] = name
            else:
                self._queries[name] = Answering(name, query)

    def _keep(self, name: str) -> None:
        """As it is `final`, its operator is to tell what is."""
        query = self._configs[name]
        if query.answer != WAITS:
            self.kept[name] = _refusal(query)
            self._configs[name] = query.model_copy(update={"answer": WAITS})

    def answered(self, queries: Mapping[str, QueryConfig]) -> dict[str, QueryConfig]:
        """With the `answer` that each has here."""
        return {name: self._configs.get(name, query) for name, query in queries.items()}

    def __bool__(self) -> bool:
        return bool(self._queries)

    def items_cost(self, step_ns: int, others_ppm: int = 0) -> None:
        """What the driver has measured: what the stage takes of the processor for each finding, and
        what else is done there."""
        self._step_ns, self._others_ppm = step_ns, others_ppm

    def of(self, found: list[Finding], now_ns: int = NEVER) -> list[Finding]:
        """What leaves of it, in the order of instants."""
        if self._final_names and found:
            found = only_final(found, self._final_names)
        return self._chosen(found, now_ns) if self._queries else found

    def _chosen(self, found: Iterable[Finding], now_ns: int) -> list[Finding]:
        left: list[Finding] = []
        found = list(found)
        for answering in self._queries.values():
            if answering.owes:
                answering.held.release(found[0].at_ns if found else now_ns, left)
        for each in found:
            chooses = self._queries.get(each.query)
            if chooses is None or isinstance(each, Overflow):
                left.append(each)
                continue
            self.items += 1
            span = each.at_ns // SPAN_NS
            if span > chooses.span:
                others_ppm = self._others_ppm + self._firsts_but(chooses, span)
                chooses.weigh(each.at_ns, span, self._step_ns, others_ppm, left)
            chooses.take(each, left)
        return left

    def _firsts_but(self, this: Answering, span: int) -> int:
        return sum(each.first_at(span) for each in self._queries.values() if each is not this)

    def chosen(self) -> list[Chosen]:
        """Those of which something was found."""
        return [each.chosen() for each in self._begun()]

    def explain(self) -> dict[str, Any]:
        return {name: each.explain() for name, each in self._queries.items()}

    def _begun(self) -> list[Answering]:
        """Those of which something was found. A query finds things in one stage alone, and in the
        history of one group of streams (`topology.flow.replay`)."""
        return [each for each in self._queries.values() if each.has_begun]

    def snapshot(self) -> State:
        state: State = {CHOSEN + whose: WAITS for whose in self._finals}
        for each in self._begun():
            state[CHOSEN + each.known_by] = each.snapshot()
            for id_ in each.held.waiting:
                state[_key_of(each, id_)] = each.held.dump(id_)
        return state

    def changes(self) -> Changes:
        changes: Changes = dict(self._gone)
        self._gone = {}
        for whose in self._finals:
            if whose not in self._said:
                self._said[whose] = None
                changes[CHOSEN + whose] = WAITS
        for each in self._begun():
            changes[CHOSEN + each.known_by] = each.snapshot()
            held = each.held
            for id_ in held.waiting if held.changed is None else held.changed:
                changes[_key_of(each, id_)] = held.dump(id_)
            held.changed = {}
        return changes

    def restore(self, state: Mapping[str, Plain]) -> dict[str, Plain]:
        """Take what is its own, and give back the rest. What is of a query that is no more goes
        with the next changes. Raises AnswerChanged."""
        names = self._names_of(state)
        for name, query in [*self._configs.items()] if state else ():
            self._restore_query(name, query, names.get(name), state)
        self._final_names = frozenset(self._finals.values())
        known = {each.known_by: each for each in self._queries.values()}
        rest: dict[str, Plain] = {}
        for key, plain in state.items():
            whose, _, id_ = key[len(HELD) :].rpartition(SEPARATOR)
            if key.startswith(CHOSEN) and key[len(CHOSEN) :] in known:
                known[key[len(CHOSEN) :]].restore(plain)
            elif key.startswith(HELD) and whose in known:
                known[whose].held.load(id_, plain)
            elif not (key.startswith(CHOSEN) and key[len(CHOSEN) :] in self._finals):
                rest[key] = plain
        for each in self._queries.values():
            each.held.changed = {}
        return rest

    def _names_of(self, state: Mapping[str, Plain]) -> dict[str, str]:
        """`known_by` of those that the state says something of, by name."""
        keys = [key[len(CHOSEN) :] for key in state if key.startswith(CHOSEN)]
        return {whose.partition("@")[2]: whose for whose in keys}

    def _restore_query(
        self, name: str, query: QueryConfig, said: str | None, state: Mapping[str, Plain]
    ) -> None:
        if said is None:
            if query.answer == WAITS and _stands(name, state):  # it told what it found early
                self._queries[name] = Answering(name, query)
                self._finals.pop(self._queries[name].known_by)
            return
        whose = known_by(name, query)
        if whose != said:
            return
        if state[CHOSEN + said] != WAITS:
            self._finals.pop(whose, None)
            self._queries.setdefault(name, Answering(name, query))
        elif query.answer == WAITS:
            self._said[whose] = None
        elif name in self._of_file:
            raise AnswerChanged(f"query {name}: {_refusal(query)}")
        else:
            self._queries.pop(name, None)
            self._finals[whose] = name
            self._said[whose] = None
            self._keep(name)


def _refusal(query: QueryConfig) -> str:
    return (
        "its `answer` was `final`, so nothing is kept of what it found and did not tell, and"
        f" `answer: {query.answer}` would tell changes of it; set `answer: final` again, or give"
        " the query another name to begin anew"
    )


def _stands(name: str, state: Mapping[str, Plain]) -> bool:
    """Whether an operator may have found anything of that query (`topology.query.queries`,
    `topology.pattern.run.run_state`)."""
    marks = (f"@{name}{SEPARATOR}", f"/{name}/")
    return any(mark in key for key in state for mark in marks)


def _key_of(answering: Answering, id_: str) -> str:
    return f"{HELD}{answering.known_by}{SEPARATOR}{id_}"
