"""Run jobs on the topics of a topology and write their tables.

| module        | content                                                                  |
|---------------|--------------------------------------------------------------------------|
| `definitions` | each job: its input topics, and its named tables                         |
| `work`        | the parts of jobs: tables, and the user's options for them               |
| `topics`      | the sources of records: Kafka, or an archive                             |
| `running`     | queries on checkpoints, or once over the existing records                |
| `watching`    | figures of the queries while they run                                    |
| `outputs`     | tables as folders of Parquet                                             |
| `errors`      | the message of a Spark error as one line                                 |
"""
