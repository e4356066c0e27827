"""Analyze the ordered topic with PySpark: functions take and return DataFrames.

The DataFrames are bounded or streaming, and the functions do not depend on Kafka. The jobs around
them (`jobs`) are thin. Times are long nanoseconds named `_ns`. Spark's windows need a timestamp,
which is a second column in microseconds, rounded down.

| module         | what it computes                                                       |
|----------------|------------------------------------------------------------------------|
| `decode`       | Kafka records as typed rows; unreadable records with a reason          |
| `aggregates`   | counts, rates, sums, quantiles over windows of the corrected timestamp |
| `disorder`     | how disordered the raw topic was, and the cost of ordering it          |
| `clocks`       | offsets, skew and error of each source over time                       |
| `results`      | window, match and join records folded to the current results           |
| `truth`        | every difference between the ordered topic and a plain sort            |
| `history`      | recorded events in order, and the results of queries, as DataFrames    |
| `topic_source` | topics as the data source `inorder`, in batches and as streams         |
| `archive`      | records as Parquet by stream and hour, and back                        |
"""
