"""Where a written document comes from, and whose it is.

An origin stands as the address of a citation, where a widget makes a link of it: it is an address that leads where a
person thinks, or words that no browser reads as an address. It is never an address of what the corpus fetches by
itself, so that nobody's text passes for the official one.

A document belongs to the group that may find it, or, where everybody may, to its writer. Its key is made of that owner
and the origin: so two groups that write the same origin have two documents, and neither learns of the other's. The key
also proves the owner of a document that was hidden, whose rows no longer tell.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import InvalidArgument

ARGUMENT: Final = "metadata.origin"
# Origins that are not the address of a page, and that no browser runs.
PLACES: Final = ("s3://", "gs://", "oci://", "hdfs://", "pvc://")
# On these hosts a page is official by its first two folders, owner and repository; on any other by its host.
SHARED_HOSTS: Final = frozenset(
    {"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "raw.githubusercontent.com"}
)

_REMEDY: Final = "Give the http(s) address of the document, or words such as: Runbook of the platform team, page 12"
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
# As the address bar reads them: no percent sign, no letter that is folded into another.
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9])?\.?|\[[0-9a-f:.]+\]", re.IGNORECASE)
# Of RFC 3986 what needs no escape in a page, beside the letters of every script.
_ADDRESS_CHARACTERS: Final = frozenset("-._~%!$&()*+,;=:@/?#")
# What a page, a Markdown renderer or a shell reads as more than a character.
_REFUSED_IN_WORDS: Final = frozenset("<>'\"`\\{}|^")
# The name of a character in a page: `&colon;` is a colon to a browser.
_ENTITY: Final = re.compile(r"&#?[0-9A-Za-z]+;?")
_SLUG_CHARACTERS: Final = 60
# Long enough that no origin can be found that has the key of another document.
_DIGEST_CHARACTERS: Final = 32


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes.

    Attributes:
        name: Of the caller, as the token says.
        groups: Groups that the caller is in; None is everything: documents then belong to the corpus.
    """

    name: str = ""
    groups: tuple[str, ...] | None = None

    def may_see(self, visibility: str) -> bool:
        """Whether the caller may find a document of this group (empty is everybody)."""
        return self.groups is None or not visibility or visibility in self.groups

    def owner(self, visibility: str) -> str:
        """Returns whose a document is that this caller writes for a group, as `document_id_of` takes it."""
        if visibility:
            return f"group:{visibility}"
        return "" if self.groups is None else f"writer:{self.name}"

    def owns(self, document_id: str, origin: str) -> bool:
        """Whether a stored document is of this caller or of one of its groups."""
        if self.groups is None:
            return True
        owners = (self.owner(""), *map(self.owner, self.groups))
        return any(document_id == document_id_of(origin, owner) for owner in owners)


def document_id_of(origin: str, owner: str = "") -> str:
    """Returns the key of the document of an owner and an origin.

    Args:
        origin: What `checked_origin` returned.
        owner: What `Author.owner` returned; empty is the corpus.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^[a-z0-9]+://", "", origin.lower())).strip("-")[:_SLUG_CHARACTERS]
    digest = hashlib.sha256(f"{owner}\n{origin}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{MANUAL_SOURCE}:{slug.strip('-') or 'document'}-{digest}"


def checked_origin(text: str) -> str:
    """Returns an origin that is safe in a citation, where a widget makes a link of it.

    Args:
        text: One line without control characters.

    Raises:
        InvalidArgument: It is an address that leads elsewhere than a person would think, or words that a browser
            could read as an address.
    """
    if any(unicodedata.category(char) in ("Cf", "Co", "Cn") for char in text):
        raise _wrong("it holds characters that are not shown")
    if text.lower().startswith(("http://", "https://")):
        _check_address(text)
    elif text.lower().startswith(PLACES):
        _check_characters(text)
    else:
        _check_words(text)
    return text


def _check_address(text: str) -> None:
    try:
        parts = urlsplit(text)
        host, known = parts.hostname or "", parts.port != 0
    except ValueError:
        host, known = "", False
    if not known or " " in text or "\\" in text:
        raise _wrong("it is not an http(s) address")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument(
            f"{ARGUMENT}: it holds a user name or a password", remedy="Leave them out", argument=ARGUMENT
        )
    if not _HOST.fullmatch(f"[{host}]" if ":" in host else host):
        raise _wrong("it is not an http(s) address with a plain host name")
    _check_characters(text.replace(parts.netloc, "", 1))


def _check_characters(address: str) -> None:
    strange = next((char for char in address if not char.isalnum() and char not in _ADDRESS_CHARACTERS), "")
    if strange:
        raise _wrong(f"an address may not hold {strange!r}", "Write the character as a percent sign and its number")


def _check_words(text: str) -> None:
    if _SCHEME.match(text):
        # `javascript:` and its kin: whatever comes before the colon, a browser might run what comes after it.
        raise _wrong("it begins like an address of an unknown kind", f"{_REMEDY}, without a colon")
    if not text[0].isalnum():
        # `//host`, `/path`, `#part`, `?query`, `../up`: a browser completes them to an address.
        raise _wrong("words begin with a letter or a digit")
    strange = next((char for char in text if char in _REFUSED_IN_WORDS), "") or next(
        (found.group() for found in _ENTITY.finditer(text) if found.group().endswith(";")), ""
    )
    if strange:
        raise _wrong(f"words may not hold {strange!r}")


def official_prefixes(origin: str) -> Iterator[str]:
    """Yields the beginnings of the addresses beside which a text would pass for official; none for words."""
    if not origin.lower().startswith(("http://", "https://")):
        return
    parts = urlsplit(origin)
    host = (parts.hostname or "").rstrip(".")
    folders = [part for part in parts.path.split("/") if part][:2] if host in SHARED_HOSTS else []
    if host in SHARED_HOSTS and len(folders) < 2:
        return
    for scheme in ("https", "http"):
        for name in {host, f"www.{host}", host.removeprefix("www.")}:
            yield "/".join([f"{scheme}://{name}", *folders]) + "/"


def _wrong(problem: str, remedy: str = _REMEDY) -> InvalidArgument:
    return InvalidArgument(f"{ARGUMENT}: {problem}", remedy=remedy, argument=ARGUMENT)
