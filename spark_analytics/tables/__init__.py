"""Write tables that people query, in Iceberg and Delta, for jobs and backfills.

| module     | content                                                                  |
|------------|--------------------------------------------------------------------------|
| `bounds`   | conditions by which a MERGE reads fewer files                            |
| `catalog`  | the names of tables, their catalogs, and the settings of a session       |
| `lake`     | the tables of one folder: append, MERGE, read; each commit is atomic     |
| `shapes`   | the keys, partitions and sort order of each kind of table                |
| `output`   | tables of jobs, batch by batch                                           |
| `views`    | typed views over the tables of a backfill                                |

    spark = new_session("mine", fetch_lake_jars("iceberg"), settings("iceberg"))
    tables = open_lake(spark, "iceberg", "/data/out", owner="mine")
    tables.append("events", frame, SHAPES["events"], Mark("mine", 0))
"""
