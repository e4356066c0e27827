"""The core on Spark's streams: groups of streams as in a backfill, and a state that goes on.

| module     | what it holds                                                              |
|------------|----------------------------------------------------------------------------|
| `group`    | a group of streams from batch to batch: what follows from what has come    |
| `lanes`    | partitions as they are read: how far time may go, and each line's number   |
| `state`    | where a group stands, as bytes: a snapshot, and what has changed since     |
| `told`     | the tables of a batch, with the columns of a backfill's                    |
| `in_lake`  | the same in Iceberg and Delta, where results are merged                    |
"""
