"""What `benchmarks spark` measures.

course      a backlog on a real broker, put in order by a worker, and what is true of it
watermarks  Spark's watermark on the raw topic beside ours on the ordered one
throughput  rows per second of each job, and what they are spent on
"""
