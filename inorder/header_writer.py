"""The contract, written: from coordinates to a record's headers.

`streamId` is left out where it is `default`,
`type` and `kind` where they are empty. With the CloudEvents preset the time is
RFC 3339 and `ce_specversion` and `ce_id` (source/epoch/seq; without a number a random one) are
added, which makes the record a CloudEvent in binary mode.
"""

from __future__ import annotations

from uuid import uuid4

from inorder import rfc3339
from inorder.contract import DEFAULT_STREAM, UNIT_NS, Contract
from inorder.signing_keys import SigningKey

Headers = list[tuple[str, str | bytes | None]]
"""As confluent-kafka has it; the values written here are bytes."""


class HeaderWriter:
    """One per producer: what does not change from record to record is made once.

    Text is written as UTF-8; whether a value must be ASCII is the caller's to ask.
    """

    def __init__(self, contract: Contract, signing_key: SigningKey | None = None) -> None:
        self._signing_key = signing_key
        self._names = contract.names()
        self._ns_per_unit = UNIT_NS[contract.ts_unit]
        self._is_cloudevent = contract.preset == "cloudevents"

    def write(
        self,
        source: str,
        seq: int | None,
        *,
        ts_ns: int | None,
        epoch: int | None,
        stream: str = DEFAULT_STREAM,
        type: str = "",  # noqa: A002 - the contract calls it so
        kind: str = "",
        value: bytes | None = None,
    ) -> Headers:
        """`seq`, `ts_ns` or `epoch` None: the header is left out. `value` is that of the record,
        which the signature covers, too, last of all."""
        names = self._names
        headers: Headers = [(names.source, source.encode())]
        if seq is not None:
            headers.append((names.seq, b"%d" % seq))
        if ts_ns is not None:
            headers.append((names.ts, self._time(ts_ns)))
        if epoch is not None:
            headers.append((names.epoch, b"%d" % epoch))
        if stream != DEFAULT_STREAM:
            headers.append((names.stream, stream.encode()))
        if type:
            headers.append((names.type, type.encode()))
        if kind:
            headers.append((names.kind, kind.encode()))
        if self._is_cloudevent:
            headers.append(("ce_specversion", b"1.0"))
            place = uuid4().hex if seq is None else f"{epoch or 0}/{seq}"
            headers.append(("ce_id", f"{source}/{place}".encode()))
        if self._signing_key is not None:
            headers.append((names.sig, self._signing_key.signature(names, headers, value)))
        return headers

    def _time(self, ts_ns: int) -> bytes:
        if self._is_cloudevent:
            return rfc3339.spelled(ts_ns).encode()
        return b"%d" % (ts_ns // self._ns_per_unit)
