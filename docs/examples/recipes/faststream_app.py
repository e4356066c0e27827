"""Publish to `events.ordered` in order the events that FastStream reads from `events.raw`.

An event that waits for a time is emitted with the next event. FastStream commits an event when
`take` has returned: events that still wait are lost if the process dies.
"""

import time

from faststream import FastStream
from faststream.confluent import KafkaBroker

from inorder import OrderedEvent
from inorder.engine import Ordering

broker = KafkaBroker("localhost:9092")
app = FastStream(broker)
order = Ordering("streams: {default: {clock: {unsynced: trust}}}")


@broker.subscriber("events.raw")
async def take(event: dict):
    for record in order.tick(time.time_ns()) + order.feed(event):
        if isinstance(record, OrderedEvent):
            await broker.publish(record.payload, "events.ordered", key=record.source.encode())
