"""Provide the programs that others would use for the same job, run in separate processes.

| program         | what it does with each record                                               |
|-----------------|-----------------------------------------------------------------------------|
| `plain_faust`   | a Faust agent as the manual shows it: event by event, the same operators    |
| `kafka_streams` | a processor on Kafka Streams: each source in order by number, exactly once  |
| `quix`          | the same rule on Quix Streams, exactly once                                 |
| `bare_loop`     | only consume and produce on confluent-kafka, headers copied                 |

All do less than ours. The agent and the loop are not exactly once and do not restore their state.
`kafka_streams` and `quix` are exactly once and restore their state. But they merge no sources,
correct no clock and have no tick. `bring` fetches the programs that some of them need.
"""
