"""Defines the base class of all sections of the topology file."""

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

from topology.spelling.problem import Fault, make_refusal_at
from topology.spelling.values import is_from_file

UNITS: Final = ("_ppb", "_ppm", "_ns")


def key_of(name: str) -> str:
    """Return the key of a field in the file: its Python name without the unit."""
    unit = next((unit for unit in UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit)


@dataclass(eq=False)
class Unspelled:
    """A mark of a field that can be set in code only.

    In a file its key is unknown. With `old`, a file may contain the key because older versions had
    it. No description of the file lists the key, except as deprecated.
    """

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
            return {**handler(schema), "description": "Has no effect.", "deprecated": True}
        raise PydanticOmit


class Section(BaseModel):
    """A mapping in the file. It is frozen, and an unknown key is an error.

    The key of a field is its name without the unit (`key_of`), unless the field has an alias. In
    code, a value that equals the default is the same as no value, so that
    `Topology(**dict(topology))` equals `topology`. In a file every written value counts as set.
    """

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=key_of),
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        # Messages show wrong values themselves if it is safe; a URL may contain a password.
        hide_input_in_errors=True,
        # Most sections are only validated as parts of a larger one, which has its own validator.
        defer_build=True,
    )

    @classmethod
    def make_default(cls) -> Self:
        """Return the section with all defaults, without building its validator, which takes ms."""
        return cls.model_construct()

    @classmethod
    def list_keys(cls) -> dict[str, tuple[str, FieldInfo]]:
        """Return the field name and the field for each key of a file, required keys first."""
        return {
            str(field.validation_alias): (name, field)
            for name, field in sorted(
                cls.model_fields.items(), key=lambda of: not of[1].is_required()
            )
            if not any(isinstance(mark, Unspelled) for mark in field.metadata)
        }

    @classmethod
    def unfold(cls, value: Any) -> Any:
        """Return the mapping that a short form of the section means, or None for no section."""
        return {} if value is None else value

    def faults(self) -> Iterable[Fault]:
        """Return the faults of values that are each valid but do not fit together."""
        return ()

    @model_validator(mode="after")
    def _check_faults(self) -> Self:
        if found := [*self.faults()]:
            raise make_refusal_at(*found)
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
