"""Yields in order what a callback puts into an asyncio queue, as that of an MQTT client does.

The callback: loop.call_soon_threadsafe(queue.put_nowait, json.loads(message.payload))
"""

import asyncio
import time


async def in_order(queue, order):
    """Yield the records of an `Ordering`, until None is in the queue."""
    while True:
        try:
            event = await asyncio.wait_for(queue.get(), 0.2)
            records = order.tick(time.time_ns())
            records += order.close() if event is None else order.feed(event)
        except TimeoutError:
            event, records = {}, order.tick(time.time_ns())
        for record in records:
            yield record
        if event is None:
            return
