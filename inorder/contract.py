"""Define the header contract: the names of a record's headers, and their values.

Producers and the engine both use this module, so they agree:

| header     |          | value                                                         |
|------------|----------|---------------------------------------------------------------|
| `sourceId` | required | UTF-8, 1 to 256 bytes                                         |
| `seqNum`   | required | integer in [0, 2^63); ignored if ordered by time              |
| `streamId` | optional | UTF-8, 1 to 249 bytes; absent: `default`                      |
| `epoch`    | optional | integer in [0, 2^63)                                          |
| `ts`       | optional | integer in the unit of the contract, or RFC 3339              |
| `type`     | optional | UTF-8; absent: empty                                          |
| `kind`     | optional | `heartbeat` or `bye`; absent: an ordinary event               |
| `sig`      | optional | signature of the source (`inorder.signature`)                 |

The names are those of the preset `plain`. Producers rename them with `HeaderContract`, and the
`fields` of a stream name the same headers for the engine. This module imports only the standard
library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

Preset = Literal["plain", "cloudevents"]
TimeUnit = Literal["ns", "us", "ms", "s"]

DATA: Final = ""
"""The kind of an ordinary event; all other kinds are control events and are counted separately."""

HEARTBEAT: Final = "heartbeat"
"""The kind of a control event that says that no older event of its source follows."""

BYE: Final = "bye"
"""The kind of a control event that ends its source, so that readers no longer wait for it."""

PRODUCER_KINDS: Final = frozenset({HEARTBEAT, BYE})

DEFAULT_STREAM: Final = "default"

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
MAX_SEQ: Final = MAX_INT64
MAX_EPOCH: Final = MAX_INT64
MAX_SOURCE_BYTES: Final = 256
MAX_STREAM_BYTES: Final = 249
MAX_NAME: Final = 256
"""The maximum number of characters in a header's name."""

UNIT_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class HeaderNames(NamedTuple):
    """The names of the contract's headers, as they are in a record."""

    source: str
    seq: str
    ts: str
    type: str
    epoch: str
    stream: str
    kind: str
    sig: str


PRESETS: Final[dict[Preset, HeaderNames]] = {
    "plain": HeaderNames("sourceId", "seqNum", "ts", "type", "epoch", "streamId", "kind", "sig"),
    "cloudevents": HeaderNames(
        "ce_source",
        "ce_sequence",
        "ce_time",
        "ce_type",
        "ce_epoch",
        "ce_streamid",
        "ce_kind",
        "ce_sig",
    ),
}

STAMPED_NAMES: Final = (
    "refTs",
    "err",
    "segment",
    "arrival",
    "at",
    "lane",
    "late",
    "complete",
    "errAll",
    "reason",
)
"""Headers that the stages write on derived topics, where they replace a producer's headers."""


class Contract(Protocol):
    """A header contract, read from a topology file or created in code."""

    @property
    def preset(self) -> Preset:
        """The preset, whose names apply to fields without another name."""

    @property
    def ts_unit(self) -> TimeUnit:
        """The unit of an integer `ts`."""

    def names(self) -> HeaderNames:
        """Return the names of the headers, as they are in a record."""


@dataclass(frozen=True, slots=True)
class HeaderContract:
    """A header contract created in code: a preset, the unit of `ts`, and names that differ.

    The stream that reads the records must use the same names: by `headers: {preset: …}`, or by
    `fields: {preset: …, source: header.NAME, …}`.

    Attributes:
        preset: The names that apply to fields without another name: `plain` or `cloudevents`.
        ts_unit: The unit of an integer `ts`: `ns`, `us`, `ms` or `s`.
        source: The name of the header with the source.
        seq: The name of the header with the sequence number.
        ts: The name of the header with the reported timestamp.
        type: The name of the header with the event's type.
        epoch: The name of the header with the epoch.
        stream: The name of the header with the stream.
        kind: The name of the header with the kind.
        sig: The name of the header with the signature.
    """

    preset: Preset = "plain"
    ts_unit: TimeUnit = "ns"
    source: str | None = None
    seq: str | None = None
    ts: str | None = None
    type: str | None = None
    epoch: str | None = None
    stream: str | None = None
    kind: str | None = None
    sig: str | None = None

    def __post_init__(self) -> None:
        """Check the preset, the unit and the names.

        Raises:
            ValueError: A field is wrong. The message names it and what to write.
        """
        if self.preset not in PRESETS:
            raise ValueError(f"preset {self.preset!r} is not known; write one of {list(PRESETS)}")
        if self.ts_unit not in UNIT_NS:
            raise ValueError(f"ts_unit {self.ts_unit!r} is not known; write one of {list(UNIT_NS)}")
        names = self.names()
        for field, name in zip(HeaderNames._fields, names, strict=True):
            if not (0 < len(name) <= MAX_NAME and name.isascii() and name.isprintable()):
                raise ValueError(
                    f"{field}: {name!r} is not a header name; write 1 to {MAX_NAME} printable ASCII"
                )
        if clashes := find_clashes(names):
            field, name, taken = clashes[0]
            raise ValueError(
                f"{field}: the header {name} is already used for {taken};"
                " give each field its own header"
            )

    def names(self) -> HeaderNames:
        """Return the names of the headers; fields without a name have the preset's."""
        found = ((field, getattr(self, field)) for field in HeaderNames._fields)
        return PRESETS[self.preset]._replace(**{field: name for field, name in found if name})


def find_clashes(names: HeaderNames) -> list[tuple[str, str, str]]:
    """Return each name that is used twice, as (field, name, earlier use of the name)."""
    found: list[tuple[str, str, str]] = []
    taken: dict[str, str] = dict.fromkeys(STAMPED_NAMES, "the output of the stages")
    for field, name in zip(HeaderNames._fields, names, strict=True):
        if name in taken:
            found.append((field, name, taken[name]))
        taken[name] = f"`{field}`"
    return found


def source_name_fault(name: str) -> str | None:
    """Return the reason why a source cannot have the name `name`, or None if it can."""
    if not name:
        return "a source's name is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return f"a source's name is longer than {MAX_SOURCE_BYTES} bytes"
    return None


def epoch_fault(epoch: int) -> str | None:
    """Return the reason why `epoch` is not a valid epoch, or None if it is."""
    return None if 0 <= epoch <= MAX_EPOCH else f"epoch {epoch} is not in 0..{MAX_EPOCH}"


def ascii_fault(what: str, value: str) -> str | None:
    """Return the reason why a producer cannot write `value` as a header, or None if it can.

    Args:
        what: The name of the value, for the message.
        value: The text to check.
    """
    if not value.isascii() or not value.isprintable():
        return f"{what} {value!r} is not printable ASCII, which every reader accepts"
    return None


# -- retracted results in a compacted topic --------------------------------------------------------

RETRACT: Final = "retract"
"""The `op` of a retracted result."""

RETRACTION_INTEGERS: Final = ("revision", "start", "end", "at")
RETRACTION_TEXTS: Final = ("op", "query", "confidence", "stream")
RETRACTION_FLAG: Final = "final"


def retraction_headers(line: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    """Return the headers of the record that retracts a result.

    The record's key is the result's id. The record has no value, so compaction removes the result
    from the topic.

    Args:
        line: The retraction, as a JSON object.
    """
    names = (*RETRACTION_TEXTS, *RETRACTION_INTEGERS)
    flag = b"true" if line[RETRACTION_FLAG] else b"false"
    return [*((name, str(line[name]).encode()) for name in names), (RETRACTION_FLAG, flag)]


def retraction_line(
    key: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> dict[str, Any] | None:
    """Return the content of a record that retracts a result, as a JSON object.

    Args:
        key: The record's key, which is the result's id.
        headers: The record's headers. The record itself has no value.

    Returns:
        The JSON object, or None if the record retracts no result. Keys without a header are absent.
        If a header should be an integer but is not, its value is text.
    """
    found = {name: (text or b"").decode(errors="replace") for name, text in headers or ()}
    if found.get("op") != RETRACT:
        return None
    line: dict[str, Any] = {"kind": RETRACT, "id": (key or b"").decode(errors="replace")}
    line |= {name: found[name] for name in RETRACTION_TEXTS if name in found}
    for name in RETRACTION_INTEGERS:
        if name in found:
            line[name] = int(found[name]) if _INTEGER.fullmatch(found[name]) else found[name]
    if RETRACTION_FLAG in found:
        line[RETRACTION_FLAG] = found[RETRACTION_FLAG] == "true"
    return line


_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
