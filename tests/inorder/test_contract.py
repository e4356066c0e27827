"""Examples: the header contract in code matches the section in a topology file."""

from __future__ import annotations

from types import ModuleType

import pytest

import inorder
import inorder.engine
import inorder.sync
from inorder.contract import PRESETS, HeaderContract
from tests.kit.programs import printed
from topology.config import HeaderConfig


def test_preset_gives_default_names() -> None:
    names = HeaderContract(preset="cloudevents", kind="k").names()
    assert names == PRESETS["cloudevents"]._replace(kind="k")


@pytest.mark.parametrize("preset", PRESETS)
def test_code_matches_file(preset: str) -> None:
    written = {"preset": preset, "ts_unit": "ms", "sig": "seal"}
    in_file = HeaderConfig.model_validate(written, by_alias=True)
    assert HeaderContract(**written).names() == in_file.names()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("preset", "odd", "preset 'odd' is not known"),
        ("ts_unit", "h", "ts_unit 'h' is not known"),
        ("seq", "sourceId", "already used for `source`"),
        ("ts", "refTs", "already used for the output of the stages"),
        ("source", "søurce", "is not a header name"),
    ],
)
def test_bad_contract_is_refused(field: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HeaderContract(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("package", [inorder, inorder.engine, inorder.sync])
def test_each_exported_name_exists(package: ModuleType) -> None:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing


def test_imports_are_lazy() -> None:
    loaded = "[m for m in ('confluent_kafka', 'orjson', 'topology') if m in sys.modules]"
    told = printed("-c", f"import sys, inorder; inorder.HeaderContract; print({loaded})")
    assert told == "[]\n"
