"""The core as a job of Spark's streams."""
