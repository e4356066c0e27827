"""Laws: each built-in aggregate can be read from a file, is in the oracle, and is documented."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.topology.queries.window.oracle import OUTPUTS
from topology.config import Aggregate, WindowQuery
from topology.queries.window.aggregates.built_in import BUILT_IN, RANKED, TIME_AVG

PAGE = ROOT / "docs" / "guides" / "windows.md"


@pytest.mark.parametrize("name", BUILT_IN)
def test_example_is_read(name: str) -> None:
    spelled = {"window": "tumbling 1s", "aggregate": {"x": BUILT_IN[name].example}}
    read = WindowQuery.model_validate(spelled).aggregate
    assert read is not None
    path = ("payload", "v") if BUILT_IN[name].arguments else ()
    by = ("payload", "w") if name in RANKED else ()
    assert read["x"] == Aggregate(name, path, read["x"].quantile_ppm, by)
    assert WindowQuery.model_validate({**spelled, "aggregate": {"x": str(read["x"])}}) == (
        WindowQuery.model_validate(spelled)
    )


def test_oracle_has_every_aggregate() -> None:
    """`time_avg` is in `test_empty`, since it depends on earlier windows."""
    assert {output.function for output in OUTPUTS} == BUILT_IN.keys() - {TIME_AVG}


@pytest.mark.parametrize("name", BUILT_IN)
def test_windows_page_names_aggregate(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text() or f"`{name}(" in PAGE.read_text()
