"""Translates between Kafka's bytes and the operators' events: two codecs with one interface.

`codec.face` is the interface. `plain` is Python: aiokafka's record batches, and the general path
for every record. It defines the results. `native` is compiled (`codec/native`). It has a shorter
path for plain records and passes every other record to the general path unchanged.

`codec.choice` chooses the codec. It is imported only when one of the codec's names is first used,
because `codec.values`, which reads payloads, needs no Kafka client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.choice import AT_WORK as AT_WORK
    from codec.choice import EventReader as EventReader
    from codec.choice import EventWriter as EventWriter
    from codec.choice import make_scan as make_scan
    from codec.choice import memory_records as memory_records
    from codec.choice import new_batch as new_batch

__all__ = ["AT_WORK", "EventReader", "EventWriter", "make_scan", "memory_records", "new_batch"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'codec' has no attribute {name!r}")
    from codec import choice

    value: object = getattr(choice, name)
    globals()[name] = value
    return value
