"""Run the core on Spark's streams, in groups as in a backfill, with state kept across batches.

| module       | content                                                                    |
|--------------|----------------------------------------------------------------------------|
| `group`      | a group of streams from batch to batch: lines in, output lines out         |
| `partitions` | the time up to which the log is complete, and the numbers of lines         |
| `state`      | the state of a group as bytes: a snapshot, and the later changes           |
| `line_tables`| the tables of a batch, with the columns of a backfill's                    |
| `in_lake`    | the same in Iceberg and Delta, where results are merged                    |
| `reading`    | the tasks that read: records become lines, packed for their groups         |
| `ordering`   | the tasks that order: a processor for each group, with Spark's state       |
| `run`        | the query: reading, a shuffle by group, ordering                           |
"""
