"""Whether a record was sent by the source that it names: the header `sig`, checked by master keys.

For streams with `signed: true`, before anything else is believed of a record. What passes is what
the header reader made of it; all else is dead and takes no place in any sequence, or a stranger
could use up a source's numbers:

| reason     | meaning                                                                          |
|------------|----------------------------------------------------------------------------------|
| `unsigned` | no header `sig`                                                                  |
| `forged`   | `sig` is of another form, or made by another key, or of something else than what |
|            | is there; or a header of the contract is there twice                             |

The dead letter tells the source that the record claims to be of; its number is in the detail
alone. A record whose stream cannot be read has no stream to be signed in; it takes no place either.

A copy of a signed record is as good as the first: it is a duplicate by its number, in the partition
of the first. `inorder.signature` says what is signed, and by which keys.

Cost: an HMAC for a record, one more for each master key that is not the one, and one to make a key
that is not in the table of `MAX_KEYS`; a table that is full is begun anew. So what a forged record
costs is bounded, whatever it claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hmac import compare_digest
from typing import Final

from inorder.contract import HeaderNames
from inorder.signature import (
    ALGORITHM,
    PREFIX,
    SOURCE,
    TAG_BYTES,
    Mac,
    Scope,
    derived,
    signed_content,
    signed_names,
)
from topology.model.event import Event
from topology.model.outcome import Malformed, dead_letter
from topology.wire.header_reader import Headers
from topology.wire.reasons import REASONS

MAX_KEYS: Final = 20_000
"""Names whose keys are kept ready, some 800 bytes each for one master key."""

DIGITS: Final = 2 * TAG_BYTES
MAX_PREFIX_DIGITS: Final = 3
UNSIGNED: Final = "unsigned"
FORGED: Final = "forged"
SHOWN_CHARACTERS: Final = 64


class SignatureCheck:
    """For the records of an input topic; `streams` are those that are signed."""

    def __init__(
        self,
        names: HeaderNames,
        streams: Iterable[str],
        masters: Sequence[bytes],
        max_keys: int = MAX_KEYS,
    ) -> None:
        self._max_keys = max_keys
        self._streams = frozenset(streams)
        self._masters = tuple(masters)
        self._once = frozenset(names)
        self._order = signed_names(names)
        self._sig = names.sig
        self._source = names.source
        self._ts = names.ts
        self._macs: dict[tuple[str, bytes], list[Mac]] = {}

    def passed(
        self, item: Event | Malformed, headers: Headers, value: bytes | None
    ) -> Event | Malformed:
        """`item` if it is of no signed stream, or signed by who it says; else a dead letter."""
        if item.stream not in self._streams:
            return item
        found = dict(headers)
        given = found.get(self._sig)
        if given is None:
            return self._refused(item, UNSIGNED)
        if len(found) != len(headers) and self._repeats(headers):
            return self._refused(item, FORGED, ": a header of the contract is there twice")
        if not self._is_signed(given, found, value):
            return self._refused(item, FORGED)
        if isinstance(item, Event) and not item.is_stamped:
            detail = (
                f"stream `{item.stream}` is signed, and the record's own timestamp is not; write"
                f" its time into the header `{self._ts}` before you sign it"
            )
            return dead_letter(item, item.arrival_ns, "ts_missing", detail)
        return item

    def _is_signed(self, given: bytes, found: dict[str, bytes | None], value: bytes | None) -> bool:
        source = found.get(self._source) or b""
        scope: Scope = SOURCE
        name = source
        digits = given[len(ALGORITHM) :]
        if not given.startswith(ALGORITHM) or not source:
            return False
        if len(digits) != DIGITS:
            size, colon, digits = digits.partition(b":")
            if not (colon and size.isdigit() and len(size) <= MAX_PREFIX_DIGITS):
                return False
            if len(digits) != DIGITS or int(size) > len(source):
                return False
            scope = PREFIX
            name = source[: int(size)]
        macs = self._macs.get((scope, name))
        if macs is None:
            macs = self._made(scope, name)
        content = signed_content(self._order, found, value)
        for place in range(len(macs)):
            mac = macs[place]
            if compare_digest(mac.tag(content).hex().encode(), digits):
                if place:  # the source signs by this one, and will
                    macs.insert(0, macs.pop(place))
                return True
        return False

    def _made(self, scope: Scope, name: bytes) -> list[Mac]:
        if len(self._macs) >= self._max_keys:
            self._macs.clear()
        macs = [Mac(derived(master, scope, name)) for master in self._masters]
        self._macs[scope, name] = macs
        return macs

    def _repeats(self, headers: Headers) -> bool:
        seen: set[str] = set()
        for name, _ in headers:
            if name in seen and name in self._once:
                return True
            seen.add(name)
        return False

    def _refused(self, item: Event | Malformed, reason: str, told: str = "") -> Malformed:
        at_ns = item.arrival_ns if isinstance(item, Event) else item.at_ns
        seq = -1 if item.seq is None else item.seq
        claim = "" if seq < 0 else f" (it says number {seq:d}, epoch {item.epoch})"
        words = REASONS[reason]
        detail = f"header `{self._sig}` {words.what}{told}; {words.remedy}{claim}"
        return Malformed(
            at_ns,
            item.offset,
            reason,
            f"stream `{item.stream}` is signed: {detail}",
            item.stream,
            item.source,
            None,
            None,
            item.record,
        )
