"""Put each source in order by its numbers with Quix Streams, exactly once.

The rule is that of `benchmarks.peers.hold_back`. The state is in RocksDB, with a changelog. There
is no merge, no clock and no tick: if a source becomes idle after a gap, its buffered records are
not emitted.

Quix keeps state by the record's key, and all records of a stream have the same key. The sources are
therefore distinguished within the state; a `group_by` would write and read every record once more.

    python -m benchmarks.peers.quix BROKERS GROUP INPUT OUTPUT STATE_FOLDER
"""

from __future__ import annotations

import sys
from typing import Final

from quixstreams import Application  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.hold_back import hold_back

COMMIT_S: Final = 1.0
"""The commit interval in seconds; Quix's default is five."""


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
