"""What `inorder spark demo` shows: the demo's topics, analysed by Spark while they fill.

ground      a real Kafka, which Spark can read, and the worker
live        the jobs that stream, and what they have said so far
analysis    the topics as a whole once all is over: one row per event, one per source
plots       three pictures of that
tables      the same as tables, and the account
show        the command: everything together, on the terminal
"""
