"""Defines the settings that windows, joins, patterns and detectors share.

Each kind of query is a class in the package of its operator, and `topology.config.query` makes a
union of them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import Field, ValidationInfo

from topology.answer.query.fields import SOURCE_KEY, KeyPath, strip_payload
from topology.answer.rules import FINAL, Answer
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.policy import SlackPolicy
from topology.base.operator import NEVER
from topology.base.paths import PATTERN, guess_path, parse_payload_path
from topology.spelling.problem import format_value, make_refusal
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    MILLION,
    Count,
    DurationNs,
    Flag,
    Given,
    PositiveNs,
    one_of,
    or_nothing,
    share,
    text,
)

QualityMethod = Literal["mp", "aq", "ldop", "prob_slack", "event_driven", "mean_delay"]
Uncertainty = Literal["plain", "ignore", "thesis3", "expected", "bounds"]

PLAIN: Final = "plain"
IGNORE: Final = "ignore"
THESIS3: Final = "thesis3"
EXPECTED: Final = "expected"
BOUNDS: Final = "bounds"

SOURCE: Final = "source"
"""The key by which each source has its own results."""


MAX_KEY_PARTS: Final = 16
"""The maximum number of values in a key."""


def _parse_key(value: Any, _: ValidationInfo) -> KeyText:
    if not isinstance(value, list | tuple):
        return _parse_key_part(value)
    parts = tuple(map(_parse_key_part, value))
    if not 1 <= len(set(parts)) == len(parts) <= MAX_KEY_PARTS:
        remedy = f"write 1 to {MAX_KEY_PARTS} different paths, like [payload.site, payload.kind]"
        raise make_refusal(f"{format_value(value)} is not a key", remedy)
    return parts


def _parse_key_part(value: Any) -> str:
    if _is_key_part(value):
        return str(value)
    remedy = f"write {guess_path(value)}, or `{SOURCE}` for a key of each source"
    if all(map(_is_key_part, parts := re.split(r"\s*,\s*", str(value)))):
        remedy = f"write [{', '.join(parts)}] for a key of several values"
    raise make_refusal(f"{format_value(value)} is not a path into the payload", remedy)


def _is_key_part(value: Any) -> bool:
    return isinstance(value, str) and (value == SOURCE or parse_payload_path(value) is not None)


_KEY_PART: Final = {"type": "string", "pattern": f"^(?:{PATTERN}|{SOURCE})$"}
KeyText = str | tuple[str, ...]
"""A key as a file names it: a path or `source`, or several of them."""
Key = Annotated[
    KeyText,
    Given(
        _parse_key,
        {
            "title": "a path into the payload",
            "anyOf": [
                _KEY_PART,
                {"type": "array", "items": _KEY_PART, "minItems": 1, "maxItems": MAX_KEY_PARTS},
            ],
        },
    ),
]
StreamName = Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")]


def key_path(key: KeyText | None) -> KeyPath | None:
    """Return the names on the path to the key in a payload, or such a path for each of its parts.

    It is None if there is no key, and `SOURCE_KEY` if the key is the source.
    """
    if key is None or key == SOURCE:
        return None if key is None else SOURCE_KEY
    if isinstance(key, str):
        return strip_payload(parse_payload_path(key) or ())
    return tuple(map(key_path, key))


class QualityConfig(Section):
    """The share of windows that must be right at first, and the longest wait for that.

    `topology.answer.quality_target` implements it.
    """

    accuracy_ppm: Annotated[
        int, share(1, MILLION - 1, "write a share below 100%, like 99% or 0.99")
    ] = 990_000
    """The share of first results that must be right. Lower it if an early answer matters more than
    one that is never corrected."""
    max_wait_ns: PositiveNs = 2_000_000_000
    """The longest wait for a first result. Raise it if `accuracy` is missed, lower it if an answer
    is of no use later."""
    idle_ns: Annotated[PositiveNs, Unspelled()] = NEVER
    """The silence after which a source is no longer awaited.

    It is the longest `merge.idle_after` of the streams that the query reads.
    """
    max_sources: Annotated[Count, Unspelled()] = 10_000
    """The largest number of sources that are remembered."""
    built_by: Annotated[Any, Unspelled(), Field(repr=False)] = None
    """A function from these settings and a window length to a waiting strategy, in place of the
    default."""

    def policy(self, window_ns: int) -> SlackPolicy:
        """Return a fresh waiting strategy for windows of this length."""
        if self.built_by is not None:
            return cast("SlackPolicy", self.built_by(self, window_ns))
        from topology.answer.waiting.risk import RiskSlack

        budget = AccuracyBudget((MILLION - self.accuracy_ppm) / MILLION)
        return RiskSlack(budget, idle_ns=self.idle_ns, max_sources=self.max_sources)


class AnswerSettings(Section):
    """The settings that every kind of query has; its `kind` is the key that no other kind has.

    A topology sets the `name` of its queries, and the fields that its other sections determine.
    """

    kind: ClassVar[str]

    name: Annotated[str, Unspelled()] = ""
    """The name of the query."""
    upsert: Flag = False
    """Writes the results to their own topic, `results.` and the query's name. A retracted result is
    a record without a value there. The compacted topic is the table of current results
    (docs/guides/results.md)."""
    answer: Annotated[Answer, one_of(Answer)] = "early"
    """`final` emits final results alone. `early` emits early results and corrects them. `speculate`
    reads the events that the merge accepts, in the merge's stage, and does not wait until the merge
    emits them."""
    finals: Flag = False
    """Whether an early result is emitted once more when it is final."""
    changes_for_ns: Annotated[DurationNs, Unspelled()] = 600_000_000_000
    """How long late events change the results of this query and of the queries that it reads."""
    new_source_allowance_ns: Annotated[DurationNs, Unspelled()] = 600_000_000_000
    """The largest new-source allowance of the streams that the query reads."""

    @property
    def streams(self) -> list[str]:
        """The stream of each input, "" for the only one."""
        return [""]

    @property
    def emits_finals(self) -> bool:
        """Whether early results are emitted again when they are final.

        A query with `answer: final` may have early results from before a restart, if its answer was
        changed.
        """
        return self.finals or self.answer == FINAL

    @property
    def uses_time_errors(self) -> bool:
        """Whether time errors count."""
        return True


class OfStream(AnswerSettings):
    """A query of one stream."""

    stream: StreamName | None = None
    """The stream that the query reads. Name it if there are several."""

    @property
    def streams(self) -> list[str]:
        return [self.stream or ""]


class WithKey(AnswerSettings):
    """A query whose results may have a key."""

    key: Key | None = None
    """Makes one result for each value of this path, or for each source (`source`). A list, like
    `[payload.site, payload.kind]`, makes one for each combination, and their key is a list."""
    correct_for_ns: DurationNs | None = None
    """How long late events change the query's results. It is at most that of the file, the default.
    Lower it if the state of this query is large."""


class WithTarget(AnswerSettings):
    """A query that may have a quality target."""

    quality: Annotated[QualityConfig | None, or_nothing(QualityConfig)] = None
    """The quality target: how often the first result must be right, and how long it may take."""


class Computed(WithTarget, WithKey):
    """A query that computes rows, a window or a join."""

    uncertainty: Annotated[Uncertainty, one_of(Uncertainty)] | None = None
    """How time errors affect the values. The default is `plain` for windows and `expected` for
    joins."""

    @property
    def uses_time_errors(self) -> bool:
        """Whether time errors count."""
        return self.uncertainty != IGNORE
