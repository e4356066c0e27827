"""A section of the topology file: what all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import AliasGenerator, BaseModel, ConfigDict, ValidationInfo, model_validator

from topology.spelling.values import is_from_file

UNITS: Final = ("_ppb_per_min", "_ppb", "_ppm", "_ns")


def key_of(name: str) -> str:
    """The key of the field that has this name in Python, where the unit comes last."""
    unit = next((unit for unit in UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit)


class Section(BaseModel):
    """A mapping of the file: frozen, and a key it does not know is an error. A key is spelled as
    its field, without the unit (`key_of`), unless the field says otherwise by an alias.

    In code what is given its default counts as left out, so that `Topology(**dict(topology))`, or
    of a dump, is the topology again. A file says nothing for nothing: what is written there counts.
    """

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=key_of),
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,  # messages repeat what helps; a URL may hold a password
    )

    @model_validator(mode="before")
    @classmethod
    def _without_defaults(cls, given: Any, info: ValidationInfo) -> Any:
        if is_from_file(info) or not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if not cls._is_default(name, value)}

    @classmethod
    def _is_default(cls, name: Any, value: Any) -> bool:
        field = cls.model_fields.get(name)
        if field is None or field.is_required():
            return False
        default = field.get_default(call_default_factory=True)
        return type(value) is type(default) and bool(value == default)
