"""The base of the settings of services and of commands. Needs pydantic, which the base install lacks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.settings import missing_value, wrong_value

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
WholeNumber = Annotated[int, Field(ge=0)]


def _split(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]

# Type of a field to what its value must be, a key of `settings.EXPECTED`.
_EXPECTED: Final[dict[type, str]] = {bool: "boolean", int: "whole number", float: "number"}


class ServiceSettings(BaseSettings):
    """Settings that come from the environment: from no file, and from nothing else.

    Each field is the environment variable of its name in capitals, behind the prefix of the class. An object that is
    made directly reads nothing: it has the values that it is given, and defaults.
    """

    model_config = SettingsConfigDict(frozen=True)

    missing_remedy: ClassVar[str] = "Set it"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Returns the only source: the arguments. `from_env` makes them of the environment."""
        return (init_settings,)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Reads the settings.

        Args:
            environ: Instead of the process environment, for tests.
            **overrides: Values of the command line; None is not given.

        Raises:
            SettingsError: A value is missing or not what it must be. The message never holds a secret.
        """
        source = EnvSettingsSource(cls)
        env = os.environ if environ is None else environ
        # Blanks around a value are trimmed, and an empty one is unset.
        source.env_vars = {
            name.lower(): text.strip() for name, text in env.items() if name.isupper() and text and text.strip()
        }
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**{**source(), **given})
        except ValidationError as error:
            raise cls._explain(error) from None

    @classmethod
    def variable(cls, field: str) -> str:
        """Returns the name of the environment variable of a field."""
        return f"{cls.model_config.get('env_prefix', '')}{field}".upper()

    @classmethod
    def _explain(cls, error: ValidationError) -> SettingsError:
        first = error.errors()[0]
        field = str(first["loc"][0])
        if first["type"] == "missing":
            return missing_value(cls.variable(field), cls.missing_remedy)
        variable, annotation = cls.variable(field), cls.model_fields[field].annotation
        if annotation not in _EXPECTED:
            # The sentence alone, which repeats no value: it may be a secret.
            return SettingsError(f"{variable}: {first['msg']}", remedy="Correct it, or unset it", setting=variable)
        return wrong_value(variable, str(first["input"]), _EXPECTED[annotation])
