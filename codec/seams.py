"""Checks whether the compiled codec exists and fits the installed aiokafka.

The codec's record batches replace aiokafka's own in two places. The fetcher uses them like
`DefaultRecordBatch`. The producer fills and sends them like `BatchBuilder`. So each interface is
compared with aiokafka's. Both codecs must also write a trial batch with the same bytes, and the
compiled codec and aiokafka must read the same records from it.

Cost: a millisecond at the start of a process.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import aiokafka.consumer.fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from codec import plain

PLACE: Final = TopicPartition("trial", 0)
TRIAL: Final[tuple[tuple[int, bytes | None, bytes | None, list[Any]], ...]] = (
    (1_700_000_000_000, b"key", b"value", [("name", b"x"), ("\N{GREEK SMALL LETTER MU}", None)]),
    (1_700_000_000_007, None, None, []),
)
LIMIT: Final = 1 << 10
READ_COMMITTED: Final = 1
FIELDS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "checksum")


def misfit() -> str:
    """Return the reason why the compiled codec cannot be used, or "" if it can."""
    try:
        from codec.native import batches, records
    except ImportError as absent:
        remedy = "install a wheel for this Python, or run make setup"
        return f"the compiled codec is not built ({absent}); {remedy}"
    if _digest() not in {"", records.SOURCES}:
        return "the compiled codec was built from other sources; run make setup"
    try:
        fault = _fault(records, batches)
    except Exception as failed:  # noqa: BLE001 - whatever it is, the plain codec does without
        fault = f"{type(failed).__name__}: {failed}"
    if not fault:
        return ""
    return f"the compiled codec does not fit aiokafka {metadata.version('aiokafka')}: {fault}"


def _digest() -> str:
    """Return the digest of the native sources, as in setup.py, or "" if they are not installed."""
    room = Path(__file__).parent / "native"
    sources = sorted(file for file in room.iterdir() if file.suffix in {".pyx", ".pxd"})
    return sha256(b"".join(file.read_bytes() for file in sources)).hexdigest() if sources else ""


def _fault(records: Any, batches: Any) -> str:
    written = [
        _write(make(LIMIT, "snappy", is_transactional=True))
        for make in (batches.new_batch, plain.new_batch)
    ]
    if bytes(written[0]) != bytes(written[1]):
        return "the two write different batches"
    log = bytes(written[1])
    read = [_read(make(log)) for make in (records.memory_records, MemoryRecords)]
    if read[0] != read[1]:
        return "the two read different records"
    ways = {MemoryRecords, plain.memory_records, records.memory_records}
    if aiokafka.consumer.fetcher.MemoryRecords not in ways:
        return "the fetcher makes its batches in another way"
    pairs = (
        (records.memory_records(log), MemoryRecords(log)),
        (records.memory_records(log).next_batch(), MemoryRecords(log).next_batch()),
        (batches.new_batch(LIMIT, None, is_transactional=False), BatchBuilder(LIMIT, 0)),
    )
    for mine, theirs in pairs:
        if missing := _public_names(theirs) - _public_names(mine):
            return f"{type(mine).__name__} has no {', '.join(sorted(missing))}"
    return ""


def _public_names(value: object) -> set[str]:
    """Return the public names of an object, without constants."""
    return {name for name in dir(value) if not name.startswith("_") and not name.isupper()}


def _write(batch: Any) -> bytes:
    for timestamp, key, value, headers in TRIAL:
        batch.append(timestamp=timestamp, key=key, value=value, headers=headers)
    batch._set_producer_state(5, 1, 40)
    found: bytes = batch._build()
    return found


def _read(log: Any) -> list[list[object]]:
    found = PartitionRecords(
        PLACE, log, [], 0, None, None, check_crcs=True, isolation_level=READ_COMMITTED
    )
    found._consumer_record = lambda _, record: [getattr(record, field) for field in FIELDS]
    return list(found)


MISFIT: Final = misfit()
