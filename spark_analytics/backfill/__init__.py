"""Process history through the same core as a worker's, distributed by Spark.

An input is read in pieces, in parallel, with the same result as sequentially (`stretches`). Each
line goes to the *group* of its stream: the streams that joins connect with it. Clock lines go to
all groups. A single task processes all lines of a group, in the order of arrival, by one
`topology.stage.replay.Replay`. Groups run in parallel and do not depend on each other, so the
output of each equals its output in `inorder replay`.

| module     | content                                                                    |
|------------|----------------------------------------------------------------------------|
| `archived` | the records that a run takes from an archive, as lines                     |
| `cut`      | the time up to which an archive is complete if its partitions end at       |
|            | different times                                                            |
| `in_lake`  | the tables in Iceberg or Delta, and the rows that a run adds to them       |
| `kinds`    | the tables, one for each kind of line, their columns, and a task's files   |
| `log_order`| an archive's records in one order, that of `inorder dump`                  |
| `parcels`  | the groups of streams, and their lines on the way to the ordering tasks    |
| `pieces`   | input files, cut so that tasks read them in parallel                       |
| `place`    | the folder of the tables, in which half written files never appear         |
| `resuming` | tables that a later run adds to, and the checked notes on earlier runs     |
| `run`      | a whole backfill, as one Spark job                                         |
| `state`    | the state of a group at the end of a run, as bytes                         |
| `stretches`| the values at the start of each piece, derived from the pieces before it   |
| `work`     | the tasks that read a piece or order a group                               |
"""
