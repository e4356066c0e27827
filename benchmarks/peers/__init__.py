"""What others would run for the same job, as processes of their own.

| program         | what it does with each record                                               |
|-----------------|-----------------------------------------------------------------------------|
| `plain_faust`   | a Faust agent as the manual shows it: event by event, the same operators    |
| `kafka_streams` | a processor on Kafka Streams: each source in order by number, exactly once  |
| `quix`          | the same rule on Quix Streams, exactly once                                 |
| `bare_loop`     | nothing but consume and produce on confluent-kafka, headers copied          |

All are less than ours. The agent and the loop are neither exactly once nor restore their state;
`kafka_streams` and `quix` are and do, but merge no sources, know no clock and have no tick.
`bring` sees to what some of them need.
"""
