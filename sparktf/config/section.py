"""The base of the configuration's sections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic._internal._model_construction import ModelMetaclass
from pydantic_core import from_json

from sparktf.config.complaints import Validated, refusal
from sparktf.errors import ConfigError
from sparktf.redaction import redacted

Switch = Literal["auto", "on", "off"]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
"""`module:function`."""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, PrivateAttr))
class _Refusing(ModelMetaclass):
    """Raises `ConfigError` where a section is constructed.

    Not done in `__init__`: pydantic calls that for nested sections too, and their errors would lose the parents' keys.
    """

    if not TYPE_CHECKING:  # which would take these arguments for those of every section

        def __call__(cls, *args: Any, **keys: Any) -> Any:
            try:
                return super().__call__(*args, **keys)
            except ValidationError as error:
                raise _refusal(cls, error, keys) from None


class Section(BaseModel, metaclass=_Refusing):
    """A frozen section that refuses unknown keys. Its errors never show values, which may be secrets.

    However it is made, an invalid one raises `ConfigError`.

    Attributes:
        KEY: Its place in the file (the first of several): `data.ready`, with `<name>` for names that the user chooses.
            Empty for the whole file; None for a base class.
    """

    KEY: ClassVar[str | None] = None

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((key, redacted(value) if isinstance(value, dict) else value) for key, value in super().__repr_args__())

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Returns the section of a mapping. Raises `ConfigError`."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise _refusal(cls, error, obj) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Returns the section of a JSON text. Raises `ConfigError`."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise _refusal(cls, error, _read(json_data)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValidationError:
            raise ConfigError(f"{name}: a configuration is frozen: make another with model_copy(update=...)") from None


def _read(json_data: str | bytes | bytearray) -> object:
    """Returns the value of a JSON text; None if it is invalid."""
    try:
        return from_json(json_data)
    except ValueError:
        return None


def _refusal(section: type[Section], error: ValidationError, raw: object) -> ConfigError:
    # Not imported: it imports all sections. Who has made a section of it has it here, and is told of its other keys.
    whole = next((known for known in Section.__subclasses__() if known.KEY == ""), section)
    return refusal(Validated(section, tuple(section.KEY.split(".")) if section.KEY else (), whole), error, raw)
