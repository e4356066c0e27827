"""`python -m cli.spark_demo` is `make spark-demo`."""

from cli.spark_demo.show import command

command(prog_name="spark-demo")
