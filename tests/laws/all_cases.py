"""All cases of all operators: who adds a list adds it here, and every law takes it."""

from __future__ import annotations

from tests.laws.cases import CASES
from tests.laws.cases_by_time import BY_TIME
from tests.laws.cases_detector import DETECTING

ALL = (*CASES, *BY_TIME, *DETECTING)
