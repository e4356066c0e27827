"""Each source in order by its numbers on Quix Streams, exactly once.

The rule is that of `benchmarks.peers.hold_back`; the state lies in RocksDB, with a changelog. No
merge, no clock, no tick: a source that falls silent behind a hole stays where it is.

Quix keeps state by the record's key, and here all of a stream bear one, so the sources are told
apart inside of it; a `group_by` would write and read every record once more.

    python -m benchmarks.peers.quix BROKERS GROUP INPUT OUTPUT STATE_FOLDER
"""

from __future__ import annotations

import sys
from typing import Final

from quixstreams import Application  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.hold_back import hold_back

COMMIT_S: Final = 1.0
"""Its own default is five seconds."""


def main() -> None:
    brokers, group, source, target, folder = sys.argv[1:6]
    app = Application(
        broker_address=brokers,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=folder,
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_S,
        producer_extra_config={"compression.type": "snappy", "linger.ms": 5},
        loglevel="WARNING",
    )
    raw = app.topic(source, key_deserializer="bytes", value_deserializer="bytes")
    ordered = app.topic(target, key_serializer="bytes", value_serializer="bytes")
    rows = app.dataframe(raw)
    rows = rows.apply(hold_back, stateful=True, metadata=True, expand=True)
    rows = rows.set_headers(lambda held, *_: held[1])
    rows = rows.apply(lambda held: held[0])
    rows.to_topic(ordered)
    app.run()


if __name__ == "__main__":
    main()
