"""Publishes to `events.ordered` what FastStream reads from `events.raw`, in order.

What waits for a time leaves with the next event. FastStream commits an event when `take` has
returned: what waits then is lost if the process dies.
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
