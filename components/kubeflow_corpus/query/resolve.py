"""Turns the labels and places of an answer back into addresses: those that its evidence had, and no others.

::

    result = client.search_docs("how do I install the manifests?")
    answer = ask_a_model(result.evidence())
    print(resolve(answer, result).text)

The finished text is read as a lenient renderer reads it, and every address in it must be one of the citations or a part
of one. So neither a label that was never shown, nor a place with something written behind it, nor an address that a
model remembers makes a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kubeflow_corpus.query.citations import Citation
from kubeflow_corpus.query.evidence import HEADER, Evidence
from kubeflow_corpus.query.links import address_end, strip_links
from kubeflow_corpus.query.places import PLACE, Places, without_marks

if TYPE_CHECKING:
    from kubeflow_corpus.query.results import SearchResult, SourceUnit

Style = Literal["markdown", "plain", "places"]

# `[c1]`, `[c1, c2]`; not the index of a variable (`row[c1]`), and not the words of a link.
_LABELS: Final = re.compile(r"(?<![\w\])])\[\s*c\d+(?:\s*[,;]\s*c\d+)*\s*\](?!\()", re.IGNORECASE)
_LABEL: Final = re.compile(r"c\d+", re.IGNORECASE)
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})")
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
# How much of what follows a place is read to see where its address would end.
_LOOK_AHEAD: Final = 200


@dataclass(frozen=True, slots=True)
class Resolved:
    """An answer with its addresses.

    Attributes:
        text: The answer; every address in it is one of a citation.
        removed: Labels, places and addresses that the evidence never showed, as the answer had them.
        cited: Labels that the answer used, in order of first use.
    """

    text: str
    removed: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()


def resolve(
    answer: str, result: SearchResult | Evidence | SourceUnit | Iterable[Citation], *, style: Style = "markdown"
) -> Resolved:
    """Returns an answer with links for its labels (``[c1]``) and addresses for its places (``{c1.2}``).

    A command comes out byte for byte as its source has it. An address inside the reader's machine or cluster
    (``http://localhost:8080``) is not a link: it stays.

    Args:
        answer: What a model wrote, or evidence itself.
        result: What it was written from: a search, its evidence, a unit, or citations.
        style: ``markdown`` makes a label a link; ``plain`` writes the address behind it; ``places`` leaves labels as
            they are, for a text with a list of sources.
    """
    answer = without_marks(answer)
    work = _Resolver({citation["id"]: citation for citation in _citations(result)}, style)
    text = work.put_back(answer)
    if not work.strangers(text):
        return work.done(text)
    # Something in it is an address of nobody: take out every address, and put back those that are cited.
    text = work.put_back(work.only_cited(answer), spaced=True)
    return work.done(strip_links(text).text if work.strangers(text) else text)


class _Resolver:
    def __init__(self, citations: Mapping[str, Citation], style: Style) -> None:
        self._citations = citations
        self._style = style
        self._links = {link["id"]: link for citation in citations.values() for link in citation["links"]}
        addresses = [citation["url"] for citation in citations.values()]
        addresses += [link["url"] for link in self._links.values()]
        # What stands bare may be read as a little less: without the full stop that ends it, say.
        read = [found for address in addresses for found in strip_links(address).links]
        self._allowed = frozenset((*addresses, *read))
        self._removed: dict[str, None] = {}
        self._cited: dict[str, None] = {}

    def done(self, text: str) -> Resolved:
        return Resolved(text, tuple(self._removed), tuple(self._cited))

    def strangers(self, text: str) -> list[str]:
        """Returns the addresses in a text that no citation has."""
        found = strip_links(text)
        return [link for link in found.links if link not in self._allowed] + [*found.refused]

    def only_cited(self, answer: str) -> str:
        """Returns an answer without addresses but for those of citations, which stand there as themselves."""
        places = Places()
        text = strip_links(answer, places=places).text
        for (url, written), number in places.found.items():
            if url in self._allowed or not strip_links(url).links:
                text = text.replace(places.mark(number), written)
            else:
                self._removed.setdefault(url)
                text = text.replace(places.mark(number), "")
        return text

    def put_back(self, text: str, *, spaced: bool = False) -> str:
        """Returns a text with its labels and places replaced.

        Args:
            text: Of an answer.
            spaced: Whether every address stands alone.
        """
        pieces: list[str] = []
        fence = ""
        for line in text.split("\n"):
            if line == HEADER:
                # It explains the labels and uses none.
                pieces.append(line)
                continue
            mark = _FENCE.match(line)
            if mark and (not fence or mark.group(1).startswith(fence)):
                fence = "" if fence else mark.group(1)
            line = line if fence or mark else _LABELS.sub(self._label, line)
            pieces.append(self._places(line, spaced))
        return "\n".join(pieces)

    def _label(self, match: re.Match[str]) -> str:
        shown = []
        for label in _LABEL.findall(match.group()):
            citation = self._citations.get(label.lower())
            if citation is None:
                self._removed.setdefault(f"[{label}]")
                continue
            self._cited.setdefault(label.lower())
            url = citation["url"]
            if self._style == "places" or not _WEB.match(url):
                shown.append(f"[{label}]")
            elif self._style == "plain":
                shown.append(f"[{label}] ({url})")
            else:
                shown.append(f"[{label}]({_target(url)})")
        return ", ".join(shown)

    def _places(self, line: str, spaced: bool) -> str:
        pieces: list[str] = []
        last = 0
        for match in PLACE.finditer(line):
            if match.start() < last:
                continue
            link = self._links.get(f"{match['label'].replace(' ', '').lower()}.{match['number']}")
            pieces.append(line[last : match.start()])
            last = match.end()
            if link is None:
                self._removed.setdefault(match.group())
                continue
            url, written = link["url"], link.get("text", link["url"])
            if pieces[-1].endswith("](") and line.startswith(")", last):
                pieces.append(_target(url))
                continue
            # Of an address inside a cluster the evidence shows all but the scheme.
            rest = url.partition("://")[2]
            shown = next((part for part in (rest, rest.rpartition("@")[2]) if part and line.startswith(part, last)), "")
            last += len(shown)
            following = line[last : last + _LOOK_AHEAD]
            glued = following[:1].strip() and (spaced or address_end(written + following) > len(written))
            pieces += (written, " " if glued else "")
        return "".join((*pieces, line[last:]))


def _target(url: str) -> str:
    """Returns an address as the target of a Markdown link."""
    return url.replace("(", "%28").replace(")", "%29").replace(" ", "%20").replace("<", "%3C").replace(">", "%3E")


def _citations(result: SearchResult | Evidence | SourceUnit | Iterable[Citation]) -> Iterable[Citation]:
    if isinstance(result, Iterable):
        return result
    citation = getattr(result, "citation", None)
    return (citation,) if citation is not None else result.citations  # type: ignore[union-attr]
