"""Origins lead where a person thinks they lead, or are words that nothing reads as an address."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.mcp_server.origins import PLACES, Author, checked_origin, document_id_of, official_prefixes

PIECES = (
    "https://", "http://", "//", "/", "\\", "javascript:", "data:", "&colon;", "&#106;", "&#x3a;", "%3a", "\u200b",
    "\u202e", "\u00ad", "evil.com", "example.org", "@", ":", "?", "#", ".", "..", " ", "<", ">", '"', "'", "(", ")",
    "[", "]", "`", "x", "page 12", "\uff0f", "\uff1a", "s3://", "[::1]", ":80", "www.",
)  # fmt: skip


@pytest.mark.parametrize(
    "origin",
    [
        "//evil.com/x", "///evil.com", "/\\evil.com", "\\\\evil.com\\x", "../../x", "#x", "?x", "./x", ".x", "&x",
        "javascript&colon;alert(1)", "&#106;avascript:alert(1)", "\u200bjavascript:alert(1)", "javascript:alert(1)",
        'https://evil.com/"><script>', "https://evil.com/)[x](javascript:alert(1))", "https://evil.com/\u202egpj.exe",
        "https://exa%6dple.org/x", "https://\uff45xample.org/x", "https://evil.com\\@example.org", "https:///evil.com",
        "https://a@b/", "vbscript:x", "<b>", "Runbook `x`", 'Runbook "x"', "Runbook &colon; x", "It's x", "s3://bucket/<x>",
        "https://evil.com/'x", "https://[::1", "https://-evil.com/", "https://evil..com:99999/",
    ],
)  # fmt: skip
def test_refuses(origin: str) -> None:
    with pytest.raises(InvalidArgument, match=r"metadata\.origin"):
        checked_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "Runbook of the platform team, page 12", "Handbuch Wärme & Licht (2024)", "運用手順書 12", "AT&T contract",
        "https://wiki.example.org/a_(b)?c=d&e=f#g", "https://wiki.example.org:8443/~x/%20", "http://[2001:db8::1]/x",
        "https://wiki.example.org/ärger", "s3://bucket/key", "pvc://claim/path", "It’s the runbook",
    ],
)  # fmt: skip
def test_takes(origin: str) -> None:
    assert checked_origin(origin) == origin


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_what_is_taken_leads_a_browser_nowhere_else(text: str) -> None:
    origin = " ".join(text.split())
    if not origin:
        return
    try:
        checked_origin(origin)
    except InvalidArgument:
        return
    page = "https://app.example/answers/1"
    if origin.lower().startswith(("http://", "https://")):
        assert re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", urlsplit(origin).hostname or "")
        assert "@" not in urlsplit(origin).netloc
    elif not origin.lower().startswith(PLACES):
        # Words stay on the page's own host, whatever reads them as an address.
        assert urlsplit(urljoin(page, origin.replace(" ", "%20"))).netloc == "app.example"
    assert not set(origin) & set('<>"`\\')


def test_beginnings_are_of_a_host_or_of_a_repository_on_a_shared_one() -> None:
    assert set(official_prefixes("https://www.Example.org:444/a/b")) == {
        f"{scheme}://{www}example.org/" for scheme in ("http", "https") for www in ("", "www.", "www.www.")
    }
    assert "https://github.com/acme/shop/" in set(official_prefixes("https://github.com/acme/shop/wiki/x"))
    assert not set(official_prefixes("https://github.com/acme")) and not set(official_prefixes("page 12"))


def test_a_key_tells_owners_apart() -> None:
    author = Author("ann", ("team-a",))
    keys = {document_id_of("x", owner) for owner in ("", "group:team-a", "group:team-b", "writer:ann", "writer:bob")}

    assert len(keys) == 5
    assert author.owns(document_id_of("x", "group:team-a"), "x") and author.owns(document_id_of("x", "writer:ann"), "x")
    assert not author.owns(document_id_of("x", "group:team-b"), "x") and not author.owns(document_id_of("x"), "x")
    assert Author().owns(document_id_of("x", "group:team-b"), "x")
    # A name cannot be chosen so that it reads as another owner and origin.
    assert not Author("ann\nx", ()).owns(document_id_of("x", "writer:ann"), "x")
