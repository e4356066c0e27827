"""How many seeds the laws of the codec run through: few in `make test`, INORDER_CODEC_SEEDS in
infra/codec_fuzz.sh."""

from __future__ import annotations

import os
from typing import Final

FIRST: Final = int(os.environ.get("INORDER_CODEC_FIRST_SEED", "0"))
SEEDS: Final = int(os.environ.get("INORDER_CODEC_SEEDS", "4"))
