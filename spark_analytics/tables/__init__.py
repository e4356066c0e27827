"""Tables that people query: Iceberg and Delta, written by jobs and by a backfill.

| module     | what it holds                                                            |
|------------|--------------------------------------------------------------------------|
| `catalog`  | where tables lie and who keeps their names; the settings of a session    |
| `lake`     | tables of a place: append, MERGE, read, each commit whole or not at all  |
| `shapes`   | how each kind of table is keyed, partitioned and sorted                  |
| `output`   | tables of jobs, batch by batch                                           |

    spark = new_session("mine", lake_jars("iceberg"), settings("iceberg"))
    tables = open_lake(spark, "iceberg", "/data/out", owner="mine")
    tables.append("events", frame, SHAPES["events"], Mark("mine", 0))
"""
