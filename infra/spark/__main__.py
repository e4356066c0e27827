"""Bring the jars, and print the connector's paths by commas, as `spark.jars` wants them."""

import os
import sys

from infra.spark import jars, missing, postgres_jars

absent = missing()
if absent is None:
    postgres_jars()
    print(",".join(jars()))
else:
    print(absent, file=sys.stderr)
    sys.exit(os.environ.get("CI") == "true")
