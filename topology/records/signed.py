"""Checks signatures: whether the header `sig` was made by the source that a record names.

In a stream with `signed: true` a record must pass this check before its content is used. A record
that is unsigned or forged is a dead letter that takes no place in any sequence. Otherwise an
outsider could use up a source's sequence numbers.

| reason       | meaning                                                                        |
|--------------|--------------------------------------------------------------------------------|
| `unsigned`   | there is no header `sig`                                                       |
| `forged`     | `sig` is malformed, or by another key, or for other content                    |
| `forged`     | a header of the contract occurs twice                                          |
| `ts_missing` | the signature is valid, but it covers no timestamp                             |

The first two reasons name the source that the record claims; its sequence number appears only in
the detail. A record whose stream cannot be read takes no place in a sequence either.

A copy of a signed record is as valid as the first, and its number marks it as a duplicate.
`inorder.signature` defines the signed content and the keys.

A check costs one HMAC, and another one for each master key that does not match. A key that is not
in the table of at most `MAX_KEYS` sources costs one more for each master key. A full table is
emptied. So the cost of a forged record is bounded.
"""

from __future__ import annotations

import re
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
    derive,
    signed_content,
    signed_names,
)
from topology.base.event import Event
from topology.base.outcome import Malformed, make_dead_letter
from topology.records.header_reader import Headers
from topology.records.reasons import REASONS

MAX_KEYS: Final = 20_000
"""The maximum number of sources whose keys are kept. A source takes about 800 bytes a master key.
"""

FORM: Final = re.compile(
    b"%s(?:([0-9]{1,3}):)?(.{%d})" % (re.escape(ALGORITHM), 2 * TAG_BYTES), re.DOTALL
)
"""The form of a signature: the length of the source's signed prefix, if any, and the digits."""
UNSIGNED: Final = "unsigned"
FORGED: Final = "forged"


class SignatureCheck:
    """A check of the signatures of an input topic's records. `streams` are the signed streams."""

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
        self._names = names
        self._macs: dict[tuple[str, bytes], list[Mac]] = {}

    def admit(
        self, item: Event | Malformed, headers: Headers, value: bytes | None
    ) -> Event | Malformed:
        """Return `item` if its signature is valid or not required, or else a dead letter."""
        if item.stream not in self._streams:
            return item
        found = dict(headers)
        given = found.get(self._names.sig)
        if given is None:
            return self._make_dead_letter(item, UNSIGNED)
        names = [name for name, _ in headers if name in self._once]
        if len(names) != len(set(names)):
            return self._make_dead_letter(item, FORGED, ": a header of the contract occurs twice")
        if not self._is_signed(given, found, value):
            return self._make_dead_letter(item, FORGED)
        if isinstance(item, Event) and not item.is_stamped:
            detail = (
                f"stream `{item.stream}` is signed, and the record's own timestamp is not; write"
                f" its time into the header `{self._names.ts}` before you sign it"
            )
            return make_dead_letter(item, item.arrival_ns, "ts_missing", detail)
        return item

    def _is_signed(self, given: bytes, found: dict[str, bytes | None], value: bytes | None) -> bool:
        form = FORM.fullmatch(given)
        source = found.get(self._names.source) or b""
        if form is None or not source:
            return False
        size, digits = form.groups()
        if size is not None and int(size) > len(source):
            return False
        scope: Scope = SOURCE if size is None else PREFIX
        name = source if size is None else source[: int(size)]
        macs = self._macs.get((scope, name))
        if macs is None:
            if len(self._macs) >= self._max_keys:
                self._macs.clear()
            macs = [Mac(derive(master, scope, name)) for master in self._masters]
            self._macs[scope, name] = macs
        content = signed_content(self._order, found, value)
        for place, mac in enumerate(macs):
            if compare_digest(mac.tag(content).hex().encode(), digits):
                if place:  # The source is likely to sign with this key again.
                    macs.insert(0, macs.pop(place))
                return True
        return False

    def _make_dead_letter(self, item: Event | Malformed, reason: str, shown: str = "") -> Malformed:
        seq = -1 if item.seq is None else item.seq
        claim = "" if seq < 0 else f" (it claims number {seq:d}, epoch {item.epoch})"
        words = REASONS[reason]
        detail = f"header `{self._names.sig}` {words.what}{shown}; {words.remedy}{claim}"
        detail = f"stream `{item.stream}` is signed: {detail}"
        return Malformed(
            item.at_ns, item.offset, reason, detail, item.stream, item.source, record=item.record
        )
