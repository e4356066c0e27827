"""Bring the jars, and print their paths by commas, as `spark.jars` wants them."""

import os
import sys

from infra.spark import jars, missing

absent = missing()
if absent is None:
    print(",".join(jars()))
else:
    print(absent, file=sys.stderr)
    sys.exit(os.environ.get("CI") == "true")
