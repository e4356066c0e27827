"""Runs `inorder spark` as the application file of spark-submit, with the same arguments.

    spark-submit --jars … --py-files inorder.zip inorder_spark.py run rates --topology …

`make spark-package` puts this file and its dependencies into one folder (`infra.spark.package`).
"""

import sys

from cli.main import main

main(["spark", *sys.argv[1:]], prog_name="inorder")
