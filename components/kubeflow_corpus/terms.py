"""Words that an index and a question must spell alike: versions and the parts of identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

# The number of a release, such as 1.10 or 26.03.1, where the whole text is a name: a tag, a branch, a folder.
RELEASE_NUMBER: Final = r"\d+(?:\.\d+)+"
# The same amid other words, where a longer run of digits and dots is an address, a date or an amount.
_NUMBER_IN_TEXT: Final = r"\d{1,4}(?:\.\d{1,4}){1,3}"
# What makes it a pre-release: ``-rc.1``, ``beta2``.
PRE_RELEASE: Final = r"-?(?:rc|alpha|beta)(?:[.-]?\d++)*+"
# As catalogues and packages write it, which is laxer: ``2.0.dev1``.
_RELEASE: Final = re.compile(rf"v?({RELEASE_NUMBER})((?:-|\.)?(?:rc|alpha|beta|dev)[.\d-]*)?", re.IGNORECASE)
_API_MAJOR: Final = re.compile(r"v\d+", re.IGNORECASE)
# Every byte that no identifier holds becomes a space: splitting bytes is many times faster than matching a pattern.
_OTHERS: Final = bytes(code for code in range(256) if not (chr(code).isascii() and chr(code).isalnum() or code == 0x5F))
_OTHERS_TO_SPACES: Final = bytes.maketrans(_OTHERS, b" " * len(_OTHERS))
# An acronym, a capitalised or lower-case word, or digits: `HTTPGet2` is HTTP, Get, 2.
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_REMEMBERED: Final = 100_000
_LONGEST_REMEMBERED: Final = 100


def release_in_text(before: str, after: str, flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that finds releases in text; its first group is the number without ``v``.

    Args:
        before: Characters that may not stand before a release, as they are written in a character set; letters,
            digits, underscores and dots never may.
        after: Expression of what may not follow it.
        flags: Of `re.compile`.
    """
    return re.compile(rf"(?<![\w.{before}])v?({_NUMBER_IN_TEXT}(?:{PRE_RELEASE})?)(?!{after})", flags)


def version_precisions(text: str) -> tuple[str, ...]:
    """Returns a version at every precision, the finest first, without a leading ``v``.

    ``v1.9.1`` is 1.9.1 and 1.9, ``26.03`` is 26.03, ``1.10.0-rc.1`` is also 1.10.0 and 1.10; an API major such as
    ``v2`` stays as it is. Text that is not a version gives nothing.

    Args:
        text: One version as people write it.
    """
    text = text.strip()
    if _API_MAJOR.fullmatch(text):
        return (text.lower(),)
    match = _RELEASE.fullmatch(text)
    if match is None:
        return ()
    release, suffix = match.group(1), match.group(2) or ""
    parts = release.split(".")
    plain = tuple(".".join(parts[:length]) for length in range(len(parts), 1, -1))
    return ((release + suffix.lower(),) if suffix else ()) + plain


def identifier_parts(text: str) -> Iterator[str]:
    """Yields the lower-case words inside the identifiers of a text, for identifiers that have more than one.

    ``minReplicas`` gives ``min``, ``replicas`` and ``minreplicas``; ``KF_PIPELINES_SA`` gives its words and
    ``kfpipelinessa``; plain words give nothing. Milvus's standard tokenizer keeps camelCase and snake_case as one
    token, so without these parts ``min replicas`` never meets ``minReplicas``.

    Args:
        text: Any text.

    Yields:
        Words in order of appearance, repeated as often as they appear.
    """
    return chain.from_iterable(map(_KNOWN.__getitem__, _names(text)))


def distinct_identifier_parts(text: str) -> tuple[str, ...]:
    """Returns what `identifier_parts` yields, each word once, in order of first appearance.

    Args:
        text: Any text.
    """
    return tuple(dict.fromkeys(identifier_parts(text)))


def _names(text: str) -> list[bytes]:
    return text.encode("utf-8", "replace").translate(_OTHERS_TO_SPACES).split()


class _NameParts(dict[bytes, tuple[str, ...]]):
    """The parts of names, remembered: a corpus repeats its names a hundred times."""

    def __missing__(self, name: bytes) -> tuple[str, ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        words = _WORD.findall(name.decode("ascii"))
        parts = (*(word.lower() for word in words), "".join(words).lower()) if len(words) > 1 else ()
        if len(name) <= _LONGEST_REMEMBERED:
            self[name] = parts
        return parts


_KNOWN: Final = _NameParts()
