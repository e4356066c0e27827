"""Reorder and merge in a plain Faust agent, event by event, as Faust's manual shows it.

The operators are the same as in our worker, so only the code around them differs. There is one
Faust event, one `on_batch` and one `send` for each record, and Faust commits the offsets. The state
is in memory and lost with the process. There is no tick, so the last events of an idle stream stay
buffered. Delivery is at least once at best.

    python -m benchmarks.peers.plain_faust BROKERS GROUP TOPOLOGY
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import faust

from topology.base.event import DATA, Event
from topology.config import Topology, parse
from topology.config.stages import MERGE, REORDER
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter
from topology.stage.stage import Stage

NS_PER_S = 1_000_000_000


def build(brokers: str, group: str, topology: Topology, folder: str) -> faust.App:
    """Return an app for one stream, whose events go through one `Stage`."""
    stream_config = topology.streams["default"]
    reader, writer = HeaderReader(stream_config.headers), HeaderWriter(stream_config.headers)
    stage = Stage(topology, [REORDER, MERGE])
    app = faust.App(
        group,
        broker=f"kafka://{brokers}",
        datadir=folder,
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        consumer_auto_offset_reset="earliest",
        key_serializer="raw",
        value_serializer="raw",
    )
    raw = app.topic(stream_config.input, key_type=bytes, value_type=bytes)
    ordered = app.topic(stream_config.output, key_type=bytes, value_type=bytes)
    now_ns = 0

    @app.agent(raw)  # type: ignore[untyped-decorator, unused-ignore]
    async def order(stream: Any) -> None:
        nonlocal now_ns
        async for event in stream.events():
            message = event.message
            now_ns = max(now_ns, round(message.timestamp * NS_PER_S))
            item = reader.read(
                list(message.headers), now_ns, now_ns, message.offset, message, message.value
            )
            step = stage.on_batch([item], now_ns)
            for released in step.released:
                await forward(released)

    async def forward(released: Event) -> None:
        if released.kind != DATA:
            return
        message = released.record
        await ordered.send(
            key=message.key,
            value=message.value,
            headers=cast(Any, writer.write_ordered(released, list(message.headers))),
            timestamp=max(released.ref_time_ns, 0) / NS_PER_S,
        )

    return app


def main() -> None:
    brokers, group, path = sys.argv[1:4]
    topology = parse(Path(path).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        app = build(brokers, group, topology, folder)
        faust.Worker(app, loglevel=logging.ERROR, quiet=True).execute_from_commandline()


if __name__ == "__main__":
    main()
