"""A section of the topology file: what all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticOmit, core_schema

from topology.spelling.problem import Fault, refused_at
from topology.spelling.values import is_from_file

UNITS: Final = ("_ppb", "_ppm", "_ns")


def key_of(name: str) -> str:
    """The key of the field that has this name in Python, where the unit comes last."""
    unit = next((unit for unit in UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit)


@dataclass(eq=False)
class Unspelled:
    """Marks a field that only code sets: in a file its key is one that there is not, unless the
    file may hold it for `old` times' sake. No description of the file names it."""

    old: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_before_validator_function(self._read, handler(source))

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        if is_from_file(info) and not self.old:
            raise PydanticCustomError("extra_forbidden", "there is no such key")
        return value

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if self.old:
            return {**handler(schema), "description": "Says nothing.", "deprecated": True}
        raise PydanticOmit


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
        defer_build=True,  # a part is mostly read within a whole, which has the one validator
    )

    @classmethod
    def by_default(cls) -> Self:
        """Return the section that says nothing, without its validator, which takes ms to build."""
        return cls.model_construct()

    @classmethod
    def spelled(cls) -> dict[str, tuple[str, FieldInfo]]:
        """Return the name and the field of each key that a file may hold."""
        return {
            str(field.validation_alias): (name, field)
            for name, field in cls.model_fields.items()
            if not any(isinstance(mark, Unspelled) for mark in field.metadata)
        }

    def faults(self) -> Iterable[Fault]:
        """Return what does not fit together in this section, whose values are sound."""
        return ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if found := [*self.faults()]:
            raise refused_at(*found)
        return self

    @model_validator(mode="before")
    @classmethod
    def _without_defaults(cls, given: Any, info: ValidationInfo) -> Any:
        if is_from_file(info) or not isinstance(given, Mapping):
            return given
        fields = {name: cls.model_fields[name] for name in given.keys() & cls.model_fields.keys()}
        defaults = {name: of.get_default(call_default_factory=True) for name, of in fields.items()}
        return {
            name: value
            for name, value in given.items()
            if name not in defaults
            or type(value) is not type(defaults[name])
            or value != defaults[name]
        }
