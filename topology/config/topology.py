"""Defines the whole topology: a file whose sections fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationInfo, model_validator

from topology.config.agreement import faults
from topology.config.file import TopologyFile
from topology.config.user_functions import make_user_functions
from topology.queries.detector.settings import DetectorQuery
from topology.queries.pattern.settings import PatternQuery
from topology.queries.window.settings import WindowQuery
from topology.spelling.problem import Fault, Problem, TopologyError
from topology.spelling.values import MAX_INT, user_functions_of

if TYPE_CHECKING:
    from topology.queries.pattern.tree.syntax import Query
    from topology.queries.window.aggregates.custom import Function


GIVE: Final = "pass it to with_functions"


class Topology(TopologyFile):
    """A topology: the description of everything that runs, as one frozen value."""

    @model_validator(mode="after")
    def _with_functions_of_file(self, info: ValidationInfo) -> Topology:
        self._user_functions = user_functions_of(info)
        return self

    def faults(self) -> Iterator[Fault]:
        return faults(self)

    def with_functions(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        aggregates: Mapping[str, Function] | None = None,
        detectors: Mapping[str, Any] | None = None,
    ) -> Topology:
        """Return the same topology with these functions instead of a functions file.

        `functions` are for patterns, `aggregates` for windows, and `detectors` for queries with a
        `detector`. TopologyError is raised for an invalid function, as it is for one in a file. It
        is also raised if a query needs a function that is not given. `init` of each aggregate is
        called once.
        """
        topology = self.model_copy()
        topology._user_functions = make_user_functions(functions, aggregates, detectors)
        topology.check_functions()
        return topology

    def without_arrivals(self) -> Topology:
        """Return the same topology for a recording without arrival times.

        The times that replace arrival times contain no information about clocks. So `unsynced:
        estimate` becomes `trust`, and no event contradicts a declared or measured clock. No event
        is too far ahead of its arrival either, since a step of timestamps that no other confirms
        does not move the arrival clock.
        """
        streams = {}
        for name, stream in self.streams.items():
            clock = stream.clock
            policy = "trust" if clock.unsynced == "estimate" else clock.unsynced
            changed = {
                "unsynced": policy,
                "broker_slack_ns": MAX_INT,
                "max_ahead_ns": MAX_INT,
                "has_arrivals": False,
            }
            streams[name] = stream.model_copy(update={"clock": clock.model_copy(update=changed)})
        return self.model_copy(update={"streams": streams})

    def check_functions(self) -> None:
        """Raise TopologyError if a query uses an unknown function, aggregate or detector.

        Built-in functions are known, and so are the user's own.
        """
        if problems := list(self._unknown_function_problems()):
            raise TopologyError(problems)

    def _unknown_function_problems(self) -> Iterator[Problem]:
        from topology.queries.window.aggregates.built_in import BUILT_IN

        own = self.user_functions
        for name, query in self.queries.items():
            path = f"queries.{name}.{query.kind}"
            match query:
                case WindowQuery():
                    for shown, aggregate in query.aggregate.items():
                        if aggregate.function not in {*BUILT_IN, *own.aggregates}:
                            message = f"`{aggregate.function}` is not an aggregate"
                            yield Problem(f"queries.{name}.aggregate.{shown}", message, GIVE)
                case DetectorQuery() if query.detector not in own.detectors:
                    message = f"there is no detector `{query.detector}`"
                    yield Problem(path, message, GIVE)
                case PatternQuery():
                    yield from self._pattern_problems(path, query.pattern)

    def _pattern_problems(self, path: str, pattern: Query) -> Iterator[Problem]:
        # Importing the pattern language takes as long as everything else, and most files have no
        # pattern.
        from topology.queries.pattern.language.check import check
        from topology.queries.pattern.tree.errors import QueryRefused

        try:
            check(pattern, functions=self.user_functions.functions)
        except QueryRefused as refusal:
            for error in refusal.errors:
                yield Problem(path, error.message, error.hint or GIVE)
