"""Write the header contract: turn the coordinates of an event into a record's headers.

`streamId` is left out if it is `default`, and `type` and `kind` are left out if they are empty. The
CloudEvents preset writes the time as RFC 3339 and adds `ce_specversion` and `ce_id`, which make the
record a CloudEvent in binary mode. `ce_id` is source/epoch/seq; without a number it is the source
and a random text.
"""

from __future__ import annotations

from uuid import uuid4

from inorder import rfc3339
from inorder.contract import DEFAULT_STREAM, UNIT_NS, Contract
from inorder.signing_keys import SigningKey

Headers = list[tuple[str, str | bytes | None]]
"""Headers in the form of confluent-kafka; the values written here are bytes."""


class HeaderWriter:
    """A writer of the headers of one producer's records.

    Text is written as UTF-8. The caller checks whether a value must be ASCII.

    Args:
        contract: The names of the headers, and the unit of time.
        signing_key: The key that signs each record. None: records are not signed.
    """

    def __init__(self, contract: Contract, signing_key: SigningKey | None = None) -> None:
        """Prepare the names and the unit of time."""
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
        """Return the headers of one record.

        The signature is the last header. It covers the other headers of the contract and the value.

        Args:
            source: The source of the event.
            seq: The sequence number. None leaves the header out.
            ts_ns: The reported timestamp, in ns since 1970. None leaves the header out.
            epoch: The source's epoch. None leaves the header out.
            stream: The stream of the event.
            type: The type of the event.
            kind: The kind of a control event, empty for an ordinary event.
            value: The value of the record, for the signature.
        """
        names = self._names
        headers: Headers = [(names.source, source.encode())]
        if seq is not None:
            headers.append((names.seq, b"%d" % seq))
        if ts_ns is not None:
            headers.append((names.ts, self._format_time(ts_ns)))
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

    def _format_time(self, ts_ns: int) -> bytes:
        if self._is_cloudevent:
            return rfc3339.format_ns(ts_ns).encode()
        return b"%d" % (ts_ns // self._ns_per_unit)
