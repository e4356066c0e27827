"""Writes the headers of the records that stages write.

An event keeps its original headers. A stage adds these headers:

| header    | sequenced | ordered |                                                       |
|-----------|-----------|---------|-------------------------------------------------------|
| `refTs`   | yes       | yes     | corrected timestamp, ns                               |
| `err`     | yes       | yes     | half-width of its error, ns                           |
| `segment` | yes       | yes     | clock segment of the source                           |
| `arrival` | yes       |         | when the event reached the broker, ns                 |
| `at`      | yes       | yes     | when the stage emitted it (arrival clock), ns         |
| `lane`    | yes       |         | the upstream partition                                |
| `late`    | if late   | if late | the cause, a word of `topology.base.late.CAUSES`     |

They replace a producer's headers of these names. A stage rewrites the sequence number and the epoch
only if REORDER has assigned other values than those in the record. It does so if a counter wraps,
if a source restarts without an epoch header, and if a stream is ordered by time. A stage adds a
missing sequence number; a missing epoch means 0. So every record of a derived topic has a valid
sequence number.

A control record has a `kind` and no value. `blocked`, `unblocked` and `progress` have the same
stage headers as events. If they concern a source, they also have `sourceId`, `epoch` and `seqNum`.
A `watermark` has the watermark as `refTs`, the completeness frontier as `complete`, and the largest
error of the live sources as `err`. If the largest error of all sources is larger, it has that as
`errAll`. A producer's `heartbeat` and `bye` get the same headers as events.

On `events.sequenced` the record's Kafka timestamp is that of the input record, and replaces a
missing `ts`. On `events.ordered` it is the corrected timestamp.
"""

from __future__ import annotations

from typing import Final

from inorder.contract import STAMPED_NAMES, Contract
from topology.base.event import WATERMARK, Event, digits
from topology.records.header_reader import Headers

Written = list[tuple[str, bytes | None]]

_STAMPED: Final = frozenset(STAMPED_NAMES)


class HeaderWriter:
    """A writer of the headers of all streams that share one header contract."""

    def __init__(self, contract: Contract) -> None:
        self.names = contract.names()
        self._seq = self.names.seq
        self._epoch = self.names.epoch

    def stamp(self, event: Event, original: Headers, lane: int) -> Written:
        """Return the headers for `events.sequenced`; `lane` is the partition of the input."""
        headers = self._write_common(event, original)
        arrival = b"%d" % event.arrival_ns
        headers += (
            ("arrival", arrival),
            ("at", arrival if event.at_ns == event.arrival_ns else b"%d" % event.at_ns),
            ("lane", b"%d" % lane),
        )
        if event.late:
            headers.append(("late", event.late.encode()))
        return headers

    def write_ordered(self, event: Event, original: Headers) -> Written:
        """Return the event's headers for `events.ordered`.

        `original` are the headers of its record on the input topic or on `events.sequenced`.
        Headers that stages write are replaced.
        """
        headers = self._write_common(event, original)
        headers.append(("at", b"%d" % event.at_ns))
        if event.late:
            headers.append(("late", event.late.encode()))
        return headers

    def _write_common(self, event: Event, original: Headers) -> Written:
        """Return the original headers, with REORDER's number and epoch, and the common ones."""
        headers: Written = []
        seq, epoch = self._seq, self._epoch
        settled_epoch = event.epoch if event.epoch > 0 else 0  # `max` is slower.
        names_epoch = names_seq = False
        for header in original:
            name = header[0]
            if name == seq:
                if names_seq:
                    # A stream ordered by time ignores numbers, so a record may have several.
                    continue
                names_seq = True
                if header[1] != digits(event.seq) and not _has_number(header[1], event.seq):
                    header = (seq, digits(event.seq))
            elif name == epoch:
                names_epoch = True
                if not _has_number(header[1], settled_epoch):
                    header = (epoch, digits(settled_epoch))
            elif name in _STAMPED:
                continue
            headers.append(header)
        if not names_seq:
            headers.append((seq, digits(event.seq)))
        if settled_epoch and not names_epoch:
            headers.append((epoch, digits(settled_epoch)))
        headers += (
            ("refTs", b"%d" % event.ref_time_ns),
            ("err", b"%d" % event.error_ns if event.error_ns else b"0"),
            ("segment", b"%d" % event.segment if event.segment else b"0"),
        )
        return headers

    def write_control(self, event: Event, lane: int) -> Written:
        """Return the headers of a stage's control record. `lane` is the partition of the input.

        A record that concerns no source has an empty `event.source`.
        """
        names = self.names
        headers: Written = [
            (names.kind, event.kind.encode()),
            (names.stream, event.stream.encode()),
        ]
        if event.source:
            headers.append((names.source, event.source.encode()))
            headers.append((names.seq, digits(event.seq)))
            if event.epoch >= 0:
                headers.append((names.epoch, digits(event.epoch)))
        stamps = {"refTs": event.ref_time_ns, "at": event.at_ns, "err": event.error_ns}
        if event.kind != WATERMARK:
            stamps |= {"segment": event.segment, "arrival": event.arrival_ns, "lane": lane}
        else:
            stamps["complete"] = event.complete_ns
            if event.error_all_ns > event.error_ns:
                stamps["errAll"] = event.error_all_ns
        return headers + [(name, b"%d" % number) for name, number in stamps.items()]


def _has_number(value: bytes | None, number: int) -> bool:
    """Return whether the header has this number as its value, ignoring leading zeros."""
    return value is not None and value.lstrip(b"0") == (digits(number) if number else b"")
