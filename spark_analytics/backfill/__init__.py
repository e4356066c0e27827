"""History through the very core that a worker runs, distributed by Spark.

An input is read in pieces, side by side (`stretches` says how that comes to the same as reading it
through). Each line goes to the *group* of streams that its stream belongs to: those that joins
bring together; a word about a clock goes to all. One task takes a group, in the order of
arrival, through one `topology.flow.replay.Replay`; groups run side by side, and none looks at
another, so what each says is what it says in `inorder replay`.

| module     | what it holds                                                              |
|------------|----------------------------------------------------------------------------|
| `archived` | records of an archive: which are taken, and their lines                    |
| `cut`      | up to when an archive whose logs reach unevenly far is known               |
| `groups`   | which stream is in which group, and which task takes it                    |
| `in_lake`  | the tables in Iceberg or Delta, and what comes into them of a run          |
| `kinds`    | the tables, one for each kind of line, and the columns of each             |
| `log_order`| an archive's records in one order, that of `inorder dump`                  |
| `noted`    | what the files of a state note, and that they note nothing else            |
| `parcels`  | lines on their way from those who read to those who order: packed by group |
| `part`     | the files that a task writes, one for each table                           |
| `pieces`   | files, cut so that tasks read them side by side                            |
| `place`    | the folder of the tables: nothing half written is ever seen in it          |
| `resuming` | tables that a later run adds to: what is known of the runs before          |
| `run`      | the whole of a backfill, as one job of Spark                               |
| `setting`  | the topology's text, on its way to the tasks                               |
| `state`    | where a group stood at the end of a run, as bytes                          |
| `stretches`| where each piece of an input begins, by what the pieces before it say      |
| `work`     | what the tasks do: read a piece, take a group through the core             |
"""
