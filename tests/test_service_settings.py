"""Settings of services: from the environment alone, described, and silent about secrets."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.issuer.settings import IssuerSettings
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.operations.milvus_access import MilvusAccess
from kubeflow_corpus.service_settings import Names, Number, ServiceSettings, WholeNumber
from kubeflow_corpus.settings import Settings
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from pipelines.cluster import KfpSettings


class Sample(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="SAMPLE_")

    name: str = Field("none", description="A text.")
    key: SecretStr = Field(SecretStr("unset-unset"), description="A secret.", min_length=8)
    port: WholeNumber = Field(1, description="A whole number.")
    rate: Number = Field(0.5, description="A number.")
    hosts: Names = Field((), description="Several names.")
    open: bool = Field(False, description="A switch.")


def test_values_are_trimmed_and_blank_ones_are_unset() -> None:
    settings = Sample.from_env(
        {"SAMPLE_NAME": "   ", "SAMPLE_PORT": " 8 ", "SAMPLE_HOSTS": "a, b ,", "SAMPLE_OPEN": "TRUE", "SAMPLE_RATE": ""}
    )

    assert (settings.name, settings.port, settings.hosts, settings.open, settings.rate) == (
        "none",
        8,
        ("a", "b"),
        True,
        0.5,
    )


def test_only_variables_in_capitals_with_the_prefix_are_read() -> None:
    assert Sample.from_env({"sample_name": "x", "NAME": "y", "Sample_Name": "z"}) == Sample()


def test_a_value_of_the_command_line_wins_and_none_is_not_given() -> None:
    settings = Sample.from_env({"SAMPLE_PORT": "8", "SAMPLE_NAME": "x"}, port=9, name=None)

    assert (settings.port, settings.name) == (9, "x")


def test_an_object_that_is_made_directly_reads_neither_environment_nor_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SAMPLE_NAME=file\n")
    monkeypatch.setenv("SAMPLE_PORT", "9")

    assert (Sample().name, Sample().port) == ("none", 1)
    assert (Sample.from_env().name, Sample.from_env().port) == ("none", 9)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PORT", "x", "SAMPLE_PORT is not a whole number of 0 or more: 'x'"),
        ("PORT", "-1", "SAMPLE_PORT is not a whole number"),
        ("PORT", "1.5", "SAMPLE_PORT is not a whole number"),
        ("RATE", "x", "SAMPLE_RATE is not a number of 0 or more: 'x'"),
        ("RATE", "-0.1", "SAMPLE_RATE is not a number"),
        ("RATE", "nan", "SAMPLE_RATE is not a number"),
        ("OPEN", "perhaps", "SAMPLE_OPEN is not true or false: 'perhaps'"),
    ],
)
def test_a_wrong_value_names_its_variable_and_the_remedy(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Sample.from_env({f"SAMPLE_{name}": value})

    assert str(caught.value).startswith(expected)
    assert caught.value.remedy and caught.value.fields == {"setting": f"SAMPLE_{name}"}


def test_a_secret_is_in_no_message_and_no_repr() -> None:
    with pytest.raises(SettingsError) as caught:
        Sample.from_env({"SAMPLE_KEY": "hunter2"})

    assert str(caught.value).startswith("SAMPLE_KEY")
    shown = (str(caught.value), repr(caught.value.fields), repr(Sample.from_env({"SAMPLE_KEY": "hunter2-hunter2"})))
    assert not [text for text in shown if "hunter2" in text]


@pytest.mark.parametrize("settings", [ServerSettings, IssuerSettings, MilvusAccess, KfpSettings])
def test_every_setting_of_a_service_has_a_description(settings: type[ServiceSettings]) -> None:
    assert all(field.description for field in settings.model_fields.values())


def test_every_shared_setting_has_a_description() -> None:
    assert all(field.metadata["description"] for field in fields(Settings))
