"""Reads the values of a topology file.

| in the file                | in Python                | unit      |
|----------------------------|--------------------------|-----------|
| `500ms`, `1.5s`, `24h`     | `int`, name ends `_ns`   | ns        |
| `256MiB`, `64 KiB`         | `int`, name ends `_bytes`| bytes     |
| `100ppm`, `20ppb`          | `int`, name ends `_ppb`  | 1e-9      |
| `0.001`, `"0.1%"`          | `int`, name ends `_ppm`  | millionth |

Each form has a JSON schema for editors (`inorder check --schema`): `title` describes it in words,
and `examples` shows it.

A duration or size in the file always has a unit: a bare number is refused, even 0. In code the
value is a plain integer in the unit above. Decimals are allowed in the file if they give a whole
number of that unit; nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from inorder import contract
from topology.base.paths import format_path
from topology.base.user_functions import NOTHING, UserFunctions
from topology.spelling.problem import Fault, format_value, make_refusal, make_refusal_at, suggest


class FromFile(NamedTuple):
    """The validation context for values that come from a file."""

    user_functions: UserFunctions = NOTHING


def is_from_file(info: ValidationInfo) -> bool:
    return isinstance(info.context, FromFile)


def user_functions_of(info: ValidationInfo) -> UserFunctions:
    return info.context.user_functions if isinstance(info.context, FromFile) else NOTHING


MAX_INT: Final = 2**63 - 1
"""The largest signed 64-bit integer, the limit on the wire and on disk."""

MILLION: Final = 1_000_000
MAX_LENGTH_NS: Final = 100 * 366 * 86_400 * 10**9
"""A hundred years, in ns; a longer length is considered a mistake."""

NS_PER: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
ELSEWHERE: Final = {
    word: unit
    for unit, words in {
        "min": "m mins minute minutes",
        "s": "sec secs second seconds",
        "h": "hr hrs hour hours",
        "d": "day days",
        "ms": "msec msecs millis millisecond milliseconds",
        "us": "usec usecs micros microseconds µs μs",
        "ns": "nsec nanos nanoseconds",
        "KiB": "kb k",
        "MiB": "mb",
        "GiB": "gb g",
        "B": "bytes",
    }.items()
    for word in words.split()
}
"""The unit that is meant by a spelling of another program. `m` means minutes."""

RATES: Final[Mapping[str, int]] = {"ppb": 1, "ppm": 1_000}
BYTES_PER: Final[Mapping[str, int]] = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

_AMOUNT: Final = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,20})?) ?([A-Za-zµ]*)", re.ASCII)
_DECIMAL: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,20})?(?:[eE]-?[0-9]{1,2})?) ?(%?)", re.ASCII)

Reader = Callable[[Any, ValidationInfo], Any]
Schema = dict[str, Any]


@dataclass(eq=False)
class Given:
    """A reader of a value, with its JSON schema; an empty value is refused before it is read.

    Attributes:
        read: Returns the value, or raises the error of `refused`.
        schema: The JSON schema of the value in the file. The annotated type is not part of it. For
            that type, pydantic's `PlainValidator` would build a schema for dumps, which nobody
            needs and which takes a tenth of the start-up time.
        has_text: Whether a dump contains the text of the value.
        instead: The remedy for an empty value.
    """

    read: Reader
    schema: Schema
    has_text: bool = field(default=False, kw_only=True)
    instead: str = field(default="write one, or leave it out for the default", kw_only=True)

    def __get_pydantic_core_schema__(
        self, _: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        text = core_schema.to_string_ser_schema(when_used="always") if self.has_text else None
        return core_schema.with_info_plain_validator_function(self._read_given, serialization=text)

    def __get_pydantic_json_schema__(
        self, _: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        return {**self.schema}

    def _read_given(self, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            raise make_refusal("has no value", self.instead)
        return self.read(value, info)


def like(read: Reader, *examples: str) -> Given:
    """Return a reader of a required value with a text like the examples."""
    schema = {"type": "string", "examples": [*examples]}
    return Given(read, schema, has_text=True, instead=f"write it like {examples[0]}")


def one_of(literal: Any) -> Given:
    """Return a reader of the words of a `Literal`."""
    words: tuple[str | bool, ...] = get_args(literal)

    def read(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str | bool) and value in words:
            return value
        said = f"{format_value(value)} is not known here"
        of_yaml = is_from_file(info)  # Python's True is `true` in YAML.
        texts = [str(w).lower() if of_yaml and isinstance(w, bool) else str(w) for w in words]
        for word, spelled in zip(words, texts, strict=True):
            if isinstance(word, bool) and spelled.lower() == str(value).lower():
                raise make_refusal(said, f"write {spelled}, without quotes")
        raise make_refusal(said, suggest(value, texts))

    is_flag = all(isinstance(word, bool) for word in words)
    return Given(read, {"type": "boolean"} if is_flag else {"enum": list(words)})


def whole(low: int, high: int = MAX_INT) -> Given:
    """Return a reader of an integer from `low` to `high`."""

    def read(value: Any, _: ValidationInfo) -> int:
        return whole_number(value, low, high)

    return Given(read, {"type": "integer", "minimum": low, "maximum": high})


def whole_number(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise make_refusal(
            f"{format_value(value)} is not a whole number", f"write one from {low} to {high}"
        )
    if not low <= value <= high:
        raise make_refusal(
            f"{format_value(value)} is out of range", f"write one from {low} to {high}"
        )
    return value


def in_unit(text: str, unit_sizes: Mapping[str, int], example: str) -> int:
    """Return an amount like `1.5s` in the smallest unit; it must be a whole number of that unit."""
    found = _AMOUNT.fullmatch(text.strip())
    units = ", ".join(unit_sizes)
    if found is None:
        raise make_refusal(
            f"{format_value(text)} is not a number with a unit", f"write it like {example}"
        )
    number, unit = found.groups()
    if not unit:
        raise make_refusal(
            f"{format_value(text)} has no unit", f"write {number}{_likely(unit_sizes)}"
        )
    if unit not in unit_sizes:
        ours = ELSEWHERE.get(unit.lower())
        likely = f"write {number}{ours}; " if ours in unit_sizes else ""
        wrong = f"{format_value(text)} has an unknown unit `{unit}`"
        raise make_refusal(wrong, f"{likely}use one of: {units}")
    amount = Decimal(number) * unit_sizes[unit]
    smallest = next(iter(unit_sizes))
    if amount != int(amount):
        raise make_refusal(
            f"{format_value(text)} is not a whole number of {smallest}", "use fewer decimals"
        )
    if amount > MAX_INT:
        raise make_refusal(
            f"{format_value(text)} is too large", f"write at most {MAX_INT} {smallest}"
        )
    return int(amount)


def join_path(path: Any) -> str:
    """Return a path as text; the text for a malformed path is not a valid path either."""
    if isinstance(path, tuple | list) and all(isinstance(part, str) and part for part in path):
        return format_path(path)
    return f"path {path}"


@dataclass(eq=False)
class Named:
    """A check of a mapping by name: `example` shows one, and it has `least` to `most` entries."""

    example: str
    most: int
    least: int = 0

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        found = {**handler(schema), "maxProperties": self.most}
        if self.least:
            return {**found, "minProperties": self.least}
        return {"anyOf": [found, {"type": "null"}]}

    def _check(self, value: Any) -> Any:
        found = {} if value is None else value
        if not isinstance(found, Mapping):
            raise make_refusal(f"{format_value(value)} is not a mapping", f"write {self.example}")
        if len(found) < self.least:
            raise make_refusal("is empty", f"write at least one, like {self.example}")
        if len(found) > self.most:
            raise make_refusal(f"{len(found)} are too many", f"write at most {self.most}")
        return found


def name_fault(name: Any) -> str | None:
    """Return why `name` cannot be a name, or None if it can."""
    if not isinstance(name, str):
        return f"{format_value(name)} is not text"
    return None if name else "a name is empty"


def source_name_fault(name: Any) -> str | None:
    """Return why `name` cannot be the name of a source, or None if it can."""
    return contract.source_name_fault(name) if isinstance(name, str) else name_fault(name)


def names(
    of: str,
    remedy: str,
    fault_of: Callable[[Any], str | None] = name_fault,
    least: int = 1,
    most: int = MILLION,
) -> Given:
    """Return a reader of a list of names without duplicates.

    `of` is the word for the names in messages. `fault_of` returns why a value is not such a name,
    or None.
    """

    def read(value: Any, _: ValidationInfo) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or len(value) < least:
            raise make_refusal(f"{format_value(value)} is not a list of {of}", remedy)
        if len(value) > most:
            raise make_refusal(f"{len(value)} {of} are too many", f"name at most {most}")
        faults: list[Fault] = []
        known: set[str] = set()
        for at, name in enumerate(value):
            if fault := fault_of(name):
                quoted = "write the name, in quotes if it looks like a number"
                faults.append(Fault((at,), fault, quoted))
            elif name in known:
                faults.append(
                    Fault((at,), f"{format_value(name)} appears here twice", "name it once")
                )
            else:
                known.add(name)
        if faults:
            raise make_refusal_at(*faults)
        return tuple(value)

    items = {"type": "string", "minLength": 1}
    bounds = {"uniqueItems": True, "minItems": least, "maxItems": most}
    return Given(read, {"type": "array", "items": items, **bounds})


def _likely(unit_sizes: Mapping[str, int]) -> str:
    return next(unit for unit in ("ms", "MiB", "ppm") if unit in unit_sizes)


def _amount(unit_sizes: Mapping[str, int], example: str, low: int) -> Given:
    smallest = next(iter(unit_sizes))

    def read(value: Any, info: ValidationInfo) -> int:
        if isinstance(value, str):
            amount = in_unit(value, unit_sizes, example)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise make_refusal(
                f"{format_value(value)} is not a number with a unit", f"write it like {example}"
            )
        elif isinstance(value, float) and not is_from_file(info):
            remedy = f"write a whole number of {smallest}"
            raise make_refusal(f"{format_value(value)} is not a whole number", remedy)
        elif is_from_file(info):
            bare = format_value(abs(value)).strip("`")
            raise make_refusal(
                f"{format_value(value)} has no unit", f"write {bare}{_likely(unit_sizes)}"
            )
        else:
            amount = whole_number(value, low, MAX_INT)
        if amount < low:
            raise make_refusal(
                f"{format_value(value)} is too small", f"write more than 0, like {example}"
            )
        return amount

    units = "|".join(unit_sizes)
    pattern = rf"^ *[0-9]{{1,20}}(\.[0-9]{{1,20}})? ?({units}) *$"
    title = {"ns": "duration", "B": "size"}.get(smallest, "rate")
    return Given(
        read, {"type": "string", "pattern": pattern, "title": title, "examples": [example]}
    )


def share(low: int, high: int, remedy: str) -> Given:
    """Return a reader of a share in millionths, from `low` to `high`."""

    def read(value: Any, info: ValidationInfo) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and not is_from_file(info):
            return whole_number(value, low, high)
        return share_ppm(value, low, high, remedy)

    bounds = {"minimum": low / MILLION, "maximum": high / MILLION}
    schema = {
        "title": "share",
        "examples": ["0.1%"],
        "anyOf": [{"type": "number", **bounds}, {"type": "string"}],
    }
    return Given(read, schema)


def share_ppm(value: Any, low: int, high: int, remedy: str) -> int:
    """Return a share, such as `0.001` or `"0.1%"`, in millionths, without rounding."""
    # `repr` gives the shortest decimals that represent the float, which are those in the file.
    found = None if isinstance(value, bool) else _DECIMAL.fullmatch(str(value).strip())
    if found is None:
        raise make_refusal(f"{format_value(value)} is not a share", remedy)
    number, percent = found.groups()
    ppm = Decimal(number) * (MILLION // 100 if percent else MILLION)
    if not low <= ppm <= high:
        raise make_refusal(f"{format_value(value)} is out of range", remedy)
    if ppm != int(ppm):
        raise make_refusal(
            f"{format_value(value)} is finer than a millionth", "use at most six decimals"
        )
    return int(ppm)


def text(pattern: str, rule: str, remedy: str) -> Given:
    """Return a reader of text that matches `pattern` completely; `rule` describes it in words."""
    matching = re.compile(pattern, re.ASCII)

    def read(value: Any, _: ValidationInfo) -> str:
        if not isinstance(value, str):
            raise make_refusal(
                f"{format_value(value)} is not text", f"{remedy}, in quotes if necessary"
            )
        if matching.fullmatch(value) is None:
            raise make_refusal(f"{format_value(value)} is not {rule}", remedy)
        return value

    return Given(read, {"type": "string", "pattern": f"^(?:{pattern})$", "title": rule})


def or_nothing(of: type) -> BeforeValidator:
    """Return a validator that reads a key without a value as a section with all defaults."""
    return BeforeValidator(
        lambda value: {} if value is None else value, json_schema_input_type=of | None
    )


def text_names(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the mapping; raise an error for names that are not text."""
    wrong = [name for name in value if not isinstance(name, str)]
    if wrong:
        remedy = "write it in quotes"
        raise make_refusal_at(
            *(Fault((str(n),), f"{format_value(n)} is not text", remedy) for n in wrong)
        )
    return value


DurationNs = Annotated[int, _amount(NS_PER, "500ms", 0)]
PositiveNs = Annotated[int, _amount(NS_PER, "500ms", 1)]
SizeBytes = Annotated[int, _amount(BYTES_PER, "256MiB", 1)]
RatePpb = Annotated[int, _amount(RATES, "100ppm", 0)]
ProbabilityPpm = Annotated[
    int, share(1, MILLION - 1, "write a share from 0.000001 to 0.999999, like 0.001")
]
Count = Annotated[int, whole(1)]
Flag = Annotated[bool, one_of(Literal[True, False])]
TOPIC_NAME: Final = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"
TopicName = Annotated[
    str,
    text(
        TOPIC_NAME,
        "a name that Kafka accepts for a topic",
        "use 1 to 249 of the characters A-Z a-z 0-9 . _ -, and not just . or ..",
    ),
]
