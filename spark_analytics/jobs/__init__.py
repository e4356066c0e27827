"""Jobs on the topics of a topology: what they make, how they run, where their tables go.

| module        | what it holds                                                            |
|---------------|--------------------------------------------------------------------------|
| `definitions` | each job: topics in, named tables out                                    |
| `work`        | what jobs are made of: tables, and what is wanted of them                |
| `topics`      | where the records come from: Kafka, or an archive                        |
| `running`     | queries on checkpoints, or once over what there is                       |
| `watching`    | figures of the queries while they run                                    |
| `outputs`     | tables as folders of Parquet                                             |
| `errors`      | what an error of Spark says, in a line                                   |
"""
