"""What others would run for the same job, as processes of their own.

| program       | what it does with each record                                            |
|---------------|--------------------------------------------------------------------------|
| `plain_faust` | a Faust agent as the manual shows it: event by event, the same operators |
| `bare_loop`   | nothing but consume and produce on confluent-kafka, headers copied       |

Both are less than ours: neither is exactly once, and neither restores its state.
"""
