import pytest
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.mcp_server.settings import ServerSettings

JWT = {
    "MCP_AUTH_JWKS_URL": "https://issuer.example.org/jwks",
    "MCP_AUTH_ISSUER": "https://issuer.example.org",
    "MCP_AUTH_AUDIENCE": "corpus",
}


def test_a_bare_environment_serves_this_machine_only() -> None:
    settings = ServerSettings.from_env({})

    assert settings.loopback
    assert not settings.authenticated
    assert settings.allowed_origins == ()


def test_every_setting_is_an_environment_variable() -> None:
    environ = {
        "MCP_PORT": "9000",
        "MCP_ALLOWED_ORIGINS": "https://a.example, https://b.example",
        "MCP_STATELESS": "false",
    }

    settings = ServerSettings.from_env(environ, host="127.0.0.2")

    assert (settings.port, settings.stateless, settings.host) == (9000, False, "127.0.0.2")
    assert settings.allowed_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"MCP_HOST": "0.0.0.0"}, "would answer everybody on 0.0.0.0"),
        ({"MCP_HOST": "corpus.example.org"}, "would answer everybody"),
        ({"MCP_AUTH_JWKS_URL": "https://x"}, "without MCP_AUTH_ISSUER"),
        ({**JWT, "MCP_AUTH_TOKEN": "x"}, "are both set"),
        ({"MCP_VISIBILITY_CLAIM": "groups"}, "no token carries claims"),
        ({"MCP_WRITE_ENABLED": "true"}, "without authentication"),
        ({"MCP_PORT": "many"}, "MCP_PORT is not a whole number"),
        ({"MCP_GLOBAL_RATE": "-1"}, "MCP_GLOBAL_RATE is not a number"),
        ({"MCP_GLOBAL_RATE": "inf"}, "MCP_GLOBAL_RATE is not a number"),
        ({"MCP_GLOBAL_RATE": "nan"}, "MCP_GLOBAL_RATE is not a number"),
        ({"MCP_STATELESS": "perhaps"}, "MCP_STATELESS is not true or false"),
    ],
)
def test_an_unsafe_or_wrong_setting_is_refused_by_name(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        ServerSettings.from_env(environ)

    assert caught.value.remedy


@pytest.mark.parametrize("waiver", [{"MCP_ALLOW_ANONYMOUS": "true"}, {"MCP_AUTH_TOKEN": "secret"}, JWT])
def test_another_address_needs_authentication_or_an_explicit_waiver(waiver: dict[str, str]) -> None:
    assert not ServerSettings.from_env({"MCP_HOST": "0.0.0.0", **waiver}).loopback


def test_the_token_does_not_show_itself() -> None:
    assert "hunter2" not in repr(ServerSettings.from_env({"MCP_AUTH_TOKEN": "hunter2"}))
