"""No secret, address or mailbox of a question is kept, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.query.scrubbing import MAX_CHARACTERS, scrub

# Made up, of the shapes that are in use; in pieces, so that nobody's scanner takes them for real.
TOKENS = [
    "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github" + "_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789",
    "glp" + "at-" + "x1Y2z3A4b5C6d7E8f9G0",
    "xo" + "xb-" + "123456789012-abcdefGHIJKL",
    "s" + "k-" + "proj-a1B2c3D4e5F6g7H8i9J0",
    "h" + "f_" + "QwErTyUiOpAsDfGhJkLz",
    "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "AI" + "za" + "SyA-1234567890abcdefghijklmnopqrstu",
    "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
    "hv" + "s." + "CAESIJ1234567890abcdef",
    "np" + "m_" + "a1b2c3d4e5f6g7h8i9j0",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "5f4dcc3b5aa765d61d8327deb882cf99",
    "123e4567-e89b-12d3-a456-426614174000",
]
NAMED = [
    "password={}",
    "Password: {}",
    "my password is {}",
    "the passwd was '{}' before",
    'password "{}"',
    'MYSQL_ROOT_PASSWORD="{}" mysqld',
    "export API_KEY={}; run",
    '{{"password": "{}", "user": "me"}}',
    '{{"clientSecret":"{}"}}',
    "client_secret: {}",
    "db-password: |\n  {}",
    "--password {} --verbose",
    "--token={}",
    "curl -u admin:{} host",
    "mysql -u root -p{} db",
    "docker login -u me -p {} registry",
    "machine git.example login me password {}",
    "Authorization: Bearer {}",
    "authorization: basic {}",
    "Cookie: session={}",
    "X-Api-Key: {}",
    "postgres://user:{}@db.example/x",
    "https://user:{}@git.example/repo.git",
    "https://host.example/cb?access_token={}&x=1",
    "PASSWORD => {}",
    "das Passwort: {}",
    "secret access key = {}",
    "AccountKey={};EndpointSuffix=core.windows.net",
    "passphrase is {} and more words",
]
VALUES = ["hunter2", "s3cr3t!", "Tr0ub4dor&3", "abc,def;7", "p@ss)w0rd", "correct-horse-9"]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("around", ["{}", "it fails with {} why?", "({})", "a={}", "line\n{}\nline", '"{}",', "«{}»"])
def test_a_token_is_not_kept(token: str, around: str) -> None:
    assert token not in scrub(around.format(token))
    assert token[8:] not in scrub(around.format(token))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("named", NAMED)
def test_the_value_of_a_secret_name_is_not_kept(named: str, value: str) -> None:
    kept = scrub(f"How do I fix this? {named.format(value)}")
    assert value not in kept and value[3:] not in kept
    assert "How do I fix this?" in kept


@pytest.mark.parametrize("words", ["correct horse battery staple", "open sesame now"])
@pytest.mark.parametrize("named", ["my password is {}", "passphrase: {}", 'password: "{}"', "password='{}"])
def test_a_secret_of_several_words_is_not_kept(named: str, words: str) -> None:
    kept = scrub(named.format(words))
    assert not [word for word in words.split() if word in kept]


@pytest.mark.parametrize(
    "text",
    [
        "jane.doe@example.com",
        "Jane <jane+tag@mail.example.co.uk>",
        "mailto:jane@x.example",
        "jane\uff20example.com",
        "ja\u200bne@example.com",
        "j\u00fcrgen@b\u00fccher.example",
        "user@localhost",
    ],
)
def test_a_mailbox_is_not_kept(text: str) -> None:
    kept = scrub(f"ask {text} about caching")
    assert "@" not in kept and "example" not in kept and "jane" not in kept
    assert "about caching" in kept


@pytest.mark.parametrize(
    "text",
    [
        "10.1.2.3",
        "192.168.0.1:8443",
        "10.0.0.0/8",
        "2001:db8::8a2e:370:7334",
        "fe80::1",
        "aa:bb:cc:dd:ee:ff",
        "https://intranet.acme.example/wiki?page=1",
        "ftp://files.acme.example/x",
        "www.acme.example/private",
        "minio.team-a.svc.cluster.local",
        "db01.corp.internal:5432",
        "git.acme.example:8080",
        "host.lan",
    ],
)
def test_an_address_is_not_kept(text: str) -> None:
    kept = scrub(f"connect to {text} please")
    assert text not in kept and "acme" not in kept and "team-a" not in kept
    assert kept.startswith("connect to {address}") and kept.endswith("please")


def test_a_private_key_is_not_kept() -> None:
    begin, body = "-----BEGIN " + "RSA PRIVATE KEY-----", "\n".join(["MIIEowIBAAKCAQEA" + "x" * 40] * 5)
    for text in (f"{begin}\n{body}\n-----END RSA PRIVATE KEY-----\nwhy?", f"{begin}\n{body}"):
        assert "MII" not in scrub(text) and "xxxx" not in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "How do I install Kubeflow Pipelines 2.4.1 on Kubernetes 1.32?",
        "the token is invalid, why?",
        "what is the service account token for?",
        "How do I mount a secret in a notebook?",
        "set canaryTrafficPercent of serving.kserve.io/v1beta1",
        "KATIB_DB_MANAGER_SERVICE_PORT default",
        "std::vector<a::b> at 10:32:11",
        "pod katib-controller-7d9f8b6c5-x2x4z is in ImagePullBackOff",
        "@dsl.component without a base_image",
        "InferenceServiceTransformerConfiguration of ml-pipeline-visualizationserver",
        "set KUBEFLOW_PIPELINES_DEFAULT_V1BETA1_ROOT in content/en/docs/components/pipelines/v2/overview.md",
        "imagePullSecrets and secretKeyRef in a PodDefault",
        "failed to save outputs: Error response from daemon: No such container",
    ],
)
def test_a_question_without_secrets_is_kept_as_it_is(text: str) -> None:
    assert scrub(text) == text


def test_a_secret_at_the_end_of_what_is_read_is_not_kept_in_half() -> None:
    for shift in range(60):
        text = "why " * ((MAX_CHARACTERS - 40) // 4) + "x" * shift + " " + TOKENS[0] + " more" * 100
        assert not [size for size in (12, 20, 30) if TOKENS[0][4 : 4 + size] in scrub(text)]
    assert len(scrub("word " * 100_000)) <= MAX_CHARACTERS + 10


@given(st.text(max_size=200), st.sampled_from(TOKENS), st.text(max_size=200))
def test_a_token_in_any_text_is_not_kept(before: str, token: str, after: str) -> None:
    assert token not in scrub(f"{before} {token} {after}")
