"""Takes every link out of a text, so that a model that reads it can neither follow nor imitate one.

What goes: ``http(s)://``, ``ftp://``, ``mailto:``, ``www.`` hosts, and the targets of Markdown and HTML links, in any
spelling that a renderer or a browser would still read as one (case, entities, percent signs, escapes, full width
letters, characters of no width). What stays: the words of a link, identifiers (``httpGet``), API groups
(``trainer.kubeflow.org/v1alpha1``), storage URIs (``s3://``, ``pvc://``, ``hf://``) and image names. An address that
only exists inside a cluster or on the reader's machine (``http://localhost:8080``, ``http://${HOST}/v1/models``) is an
answer and no link: it loses its scheme and stays.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin

from kubeflow_corpus.query.markup import take_apart
from kubeflow_corpus.query.places import Places, is_place

# Stands where an address stood. Braces, because `[link]` or `(link)` beside a bracket would be a link again.
PLACEHOLDER: Final = "{link}"
# Attributes that lead somewhere, in lower case.
LINK_ATTRIBUTES: Final = frozenset(
    ("href", "src", "srcset", "action", "formaction", "cite", "data", "poster", "background", "longdesc", "ping")
    + ("manifest", "codebase", "classid", "usemap", "profile", "archive", "icon", "dynsrc", "lowsrc", "xlink:href")
    + ("to", "style", "content", "value", "srcdoc", "imagesrcset", "itemid", "itemtype")
)
# Of these only values that look like an address go: they usually carry something else.
AMBIGUOUS_ATTRIBUTES: Final = frozenset({"data", "to", "style", "content", "value", "icon", "action", "profile"})
# Tags that are nothing but their link.
LINK_TAGS: Final = frozenset({"a", "area", "base", "link"})
# A pass can uncover what it had split (`ht[tp](x)://y`); honest texts need one or two passes.
MAX_PASSES: Final = 5
# A tag longer than this is not a tag that a person wrote, and a limit keeps hostile texts linear.
MAX_TAG: Final = 2_048
MAX_TARGET: Final = 2_048
# The words of a link in a block of code whose place stands for all of it.
MAX_WORDS: Final = 200

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff\ue001]"
)
_NEWLINES: Final = re.compile("\r\n?|\x85|\u2028|\u2029")
_ENCODED: Final = re.compile(
    r"&(?:amp;){0,3}(?:\#x0{0,7}([0-9a-f]{2,6});?|\#0{0,7}([0-9]{2,7});?|(colon|sol|period|bsol|num|lpar|rpar|lsqb|lbrack|rsqb"
    r"|rbrack|commat|lowbar|Tab|NewLine|shy|ZeroWidthSpace|nbsp);)"
    r"|%(?:25){0,3}([2-7][0-9a-f])|\\u00([2-7][0-9a-f])|\\x([2-7][0-9a-f])|\\([/:.@])",
    # Where the case is ignored, U+017F is an `s` too, and U+0130 an `i`; names of entities are ASCII.
    re.IGNORECASE | re.ASCII,
)
_URL_REST: Final = r"(?:<[\w.\- ]{1,60}>|\$\([\w.\- ]{1,60}\)|[^\s<>\"'`|\u3000-\u303f\uff08-\uff0c\uff1b])*"
_BARE: Final = re.compile(
    r"(?:[a-z][a-z0-9]{0,15}\+)?(?P<scheme>https?|s?ftps?|wss?|git|ssh):(?:/|\\){2,}(?P<rest>" + _URL_REST + ")"
    r"|(?P<mail>mailto):(?P<address>" + _URL_REST + ")"
    r"|(?P<www>www\d{0,3}\.(?=\w)" + _URL_REST + ")"
)
_BARE_PARTS: Final = (":/", ":\\", "mailto:", "www")
_EMAIL_LINK: Final = re.compile(r"<[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}>")
_AUTOLINK: Final = re.compile(r"<([a-z][a-z0-9+.-]{1,31}:[^\s<>]{0,2048})>", re.IGNORECASE)
# Schemes of addresses that storage initialisers, registries and clients read: identifiers, not links.
_KEPT_SCHEMES: Final = re.compile(
    r"(?:s3a?|gs|gcs|pvc|hf|minio|oci|docker|hdfs|webhdfs|wasbs?|abfss?|azure|file|mlflow|ms|ml-pipeline|model-registry"
    r"|k8s|grpcs?|tcp|udp|unix|postgres(?:ql)?|mysql|redis|mongodb|amqp|spark|cache|dbfs|viking|local)://",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)|<!(?=[a-z\[])|<\?(?=[a-z])", re.IGNORECASE | re.DOTALL)
_TAG_START: Final = re.compile(r"</?([a-zA-Z][\w:.-]{0,60})(?=[\s/>])")
_ATTRIBUTE: Final = re.compile(
    r"[\s/]*(?P<name>[^\s\"'<>/=]{1,100})"
    r"(?:\s*=\s*(?P<value>\"[^\"]{0,2048}\"|'[^']{0,2048}'|\{[^{}]{0,2048}\}|[^\s\"'<>`]{1,2048}))?"
)
_WAITING: Final = re.compile(r"\s{0,20}=\s{0,20}[\"']?")
_TAG_END: Final = re.compile(r"[\s/]*>")
_URLISH: Final = re.compile(r"[/#.:?@%&\\]|\bwww\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:[./#\\]|[a-z][a-z0-9+.-]{0,30}:[/\\]|www\.)|url\s*\(", re.IGNORECASE)
_TARGET: Final = re.compile(
    r"\(\s{0,20}(?P<target><[^<>\n]{0,2048}>|(?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\]|\([^\s()]{0,200}\)){0,400}\)){0,2048}+)"
    r"(?:\s{1,20}(?:\"(?:\\.|[^\"\\]){0,500}\"|'(?:\\.|[^'\\]){0,500}'|\((?:\\.|[^()\\]){0,500}\)))?\s{0,20}\)"
)
# A target that Markdown would refuse (it holds spaces) but that a lenient renderer takes.
_LOOSE_TARGET: Final = re.compile(
    r"\(\s{0,20}(?P<target>(?:[.]{0,2}/|#|[\w+.-]{1,30}:|[\w%-]{1,60}\.)[^()\n]{0,500})\)"
)
_DEFINITION: Final = re.compile(
    r"^(?P<lead>(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,20})"
    r"\[(?P<label>(?!\^)(?:\\.|[^\[\]\\\n]){1,300})\]:[ \t]{0,20}"
    r"(?:\n[ \t>]{0,20})?(?P<target><[^<>\n]{0,2048}>|[^\s<][^\s]{0,2048})"
    r"(?:[ \t]{0,20}(?:\n[ \t]{0,20})?(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|\([^()\n]{0,500}\)))?[ \t]{0,20}$\n?",
    re.MULTILINE,
)
# Stands for a definition while the references to it are looked for; hidden, so no text can bring it.
_DEFINED: Final = "\ue001"
_FENCE: Final = re.compile(r"^[ \t]{0,20}(`{3,20}|~{3,20})", re.MULTILINE)
_BRACKET: Final = re.compile(r"\\[\[\]!\\]|!?\[|\]")
_REFERENCE: Final = re.compile(r"\[((?:\\.|[^\[\]\\]){0,300})\]")
_PATTERN: Final = re.compile(r"[\[\]*+|^${}\\]")
_TRAILING: Final = ".,;:!?*_~"
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}
_SCHEME: Final = re.compile(r"(?:https?|s?ftps?|wss?|git|ssh|mailto):", re.IGNORECASE)
_ANY_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WWW: Final = re.compile(r"www\d{0,3}\.", re.IGNORECASE)
# An address that is written as it is read, and one whose first part is written in another way.
_PLAIN_START: Final = re.compile(
    r"<?(?:(?:[a-z][a-z0-9]{0,15}\+)?[a-z]{2,5}://|mailto:|www|[\w.!#$&'*+/=?^`{|}~-]+@)", re.I
)
_ESCAPED_START: Final = re.compile(r"^[^/]*//[^/]*[%&\\]")

# Hosts that lead nowhere outside a machine, a cluster or a template.
_ENDPOINT: Final = re.compile(
    r"(?:(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}"
    r"|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?(?=[:/]|$)"
    r"|[a-z0-9${}()<>*_. -]{1,200}\.(?:svc|local|internal|svc\.cluster\.local)"
    r"|[\w.-]{0,100}(?:\$\{?\w{1,60}\}?|\$\([\w. -]{1,60}\)|\{\{?[\w. -]{1,60}\}\}?|<[\w. -]{1,60}>|\*)"
    r"[\w.${}()<>*-]{0,200}))"
    r"(?::(?:\d{1,5}|\$\{?\w{1,60}\}?|\{\{?[\w. -]{1,60}\}\}?|<[\w. -]{1,60}>))?"
    r"(?:/(?!/)[\w.\-~$(){}<>*,;=+! :]*)*",
    re.IGNORECASE,
)
_PLAIN_QUERY: Final = re.compile(r"[\w.\-~${}*,;+]{0,200}(?:[=&](?!#|\w+;)[\w.\-~${}*,;+]{0,200}){0,30}")
# What could become a link again once the scheme before it is gone.
_UNSAFE: Final = re.compile(r"//|www|mailto|:/|[^\x20-\x7e]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text without links, and the links that it had.

    Attributes:
        text: The text.
        links: Addresses in order of appearance, each once: absolute where a base was given, as written otherwise.
        refused: Targets that lead somewhere a reader must not be sent (``javascript:``).
    """

    text: str
    links: tuple[str, ...]
    refused: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    """What is taken out of a text, and what stands there instead.

    Attributes:
        base: Address that relative targets are resolved against.
        places: Numbers the addresses; None leaves no place.
        links: Addresses that were found.
        refused: Other targets that were found.
    """

    base: str
    places: Places | None
    links: dict[str, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)

    def take(self, target: str, written: str = "", *, whole: str = "") -> str:
        """Records a target and returns its place: nothing where places are not wanted, or where it leads nowhere.

        Args:
            target: Address or relative target.
            written: How the source writes it.
            whole: Markup that the place stands for, where not the address alone.
        """
        if is_place(target):
            return target
        link = html.unescape(target).strip().strip("<>").strip()
        if _WWW.match(link):
            link = f"https://{link}"
        if link.startswith("//"):
            link = f"https:{link}"
        if self.base and link and not _SCHEME.match(link) and not _ANY_SCHEME.match(link):
            try:
                link = urljoin(self.base, link)
            except ValueError:
                return ""
        if not _SCHEME.match(link) or link.endswith("://"):
            if _ANY_SCHEME.match(link):
                self.refused.setdefault(link)
            return ""
        self.links.setdefault(link)
        return self.places.add(link, whole or _spelling(link, written)) if self.places is not None else ""

    def bare(self, target: str, written: str) -> str:
        """Records an address that a text spells out, and returns its replacement."""
        return self.take(target, written) or PLACEHOLDER

    def local(self, address: str, shown: str) -> str:
        """Returns an address that leads nowhere outside, without its scheme; its place says what the scheme was."""
        return (self.places.add(address, address) if self.places is not None else "") + shown


def _spelling(link: str, written: str) -> str:
    """Returns how a source writes an address, where a reader can be shown that."""
    plain = written.isascii() and _PLAIN_START.match(written) and not _ESCAPED_START.search(written)
    return written if plain else link


def remove_hidden(text: str) -> str:
    """Returns a text without what a reader cannot see: control characters, characters of no width, bidi marks."""
    return _HIDDEN.sub("", _NEWLINES.sub("\n", text))


def strip_links(text: str, *, base: str = "", code: bool = False, places: Places | None = None) -> Stripped:
    """Takes every link out of a text.

    Stripping twice gives what stripping once gives, and the time grows with the length of the text whatever it holds.

    Args:
        text: Any text; hidden characters go first, since they can split an address.
        base: Address that relative targets are resolved against, for `Stripped.links`.
        code: The text is a program or a manifest: ``name[index](argument)`` and ``<T>`` are not markup there.
        places: Numbers the addresses of a fragment, whose places are then in the text; None leaves the words alone.
    """
    notes = _Notes(base, places)
    text = remove_hidden(text)
    for _ in range(MAX_PASSES):
        before = text
        text = _bare(_markdown(_tags(_COMMENT.sub("", text), notes, code), notes, code), notes)
        if text == before:
            break
    else:
        text = _defuse(text, notes)
    return Stripped(take_apart(text), tuple(notes.links), tuple(notes.refused))


def _defuse(text: str, notes: _Notes) -> str:
    """Breaks all markup of a text that is built to keep uncovering links, without regard for its looks."""
    text = re.sub(r"<(?=[a-zA-Z/!?])", "", text)
    text = re.sub(r"\](?=[(\[:])", "] ", text)
    for _ in range(MAX_PASSES):
        before, text = text, _bare(text, notes, endpoints=False)
        if text == before:
            return text
    return re.sub(r"(?i)(://|www\.|mailto:|%|&#?|\\)", " ", text)


def address_end(text: str) -> int:
    """Returns where the address that a text begins with ends; 0 where it begins with none."""
    folded, _, origin = _fold(text)
    match = _BARE.match(folded)
    return origin(_trimmed(folded, match)) if match else 0


# ---- bare addresses


def _bare(text: str, notes: _Notes, *, endpoints: bool = True) -> str:
    folded, decoded, origin = _fold(text)
    pieces: list[str] = []
    last = 0
    # Most texts hold none of the parts without which there is no address: looking for these first is much faster.
    possible = any(part in folded for part in _BARE_PARTS)
    for match in _BARE.finditer(folded) if possible else ():
        start, end = match.start(), _trimmed(folded, match)
        first, stop = origin(start), origin(end)
        if first < last:
            continue
        pieces.append(text[last:first])
        pieces.append(_replacement(decoded, match, end, text[first:stop], notes, endpoints))
        last = stop
    pieces.append(text[last:])
    text = "".join(pieces) if len(pieces) > 1 else text
    text = text.replace(f"<{PLACEHOLDER}>", PLACEHOLDER)
    text = _EMAIL_LINK.sub(lambda match: notes.bare(f"mailto:{match.group()[1:-1]}", match.group()), text)
    return _AUTOLINK.sub(
        lambda match: match.group() if _keeps(match.group(1)) else notes.bare(match.group(1), match.group()), text
    )


def _keeps(target: str) -> bool:
    # `<name:value>` is a placeholder or a type as often as an autolink: only what has an authority leads somewhere.
    lowered = target.lower()
    scheme = lowered.partition(":")[0]
    if scheme in ("javascript", "data", "vbscript", "tel", "sms", "xmpp", "news"):
        return False
    return "://" not in lowered or bool(_KEPT_SCHEMES.match(lowered))


def _trimmed(folded: str, match: re.Match[str]) -> int:
    """Returns where an address ends: sentence marks and brackets that it did not open belong to the text around it."""
    group = "rest" if match["scheme"] else "address" if match["mail"] else "www"
    start, end = match.span(group)
    counts = {bracket: folded.count(bracket, start, end) for pair in _CLOSERS.items() for bracket in pair}
    while end > start:
        character = folded[end - 1]
        opener = _CLOSERS.get(character)
        if opener and counts[character] > counts[opener]:
            counts[character] -= 1
        elif character not in _TRAILING:
            break
        end -= 1
    return end


def _replacement(text: str, match: re.Match[str], end: int, written: str, notes: _Notes, endpoints: bool) -> str:
    if match["mail"]:
        address = text[match.start("address") : end]
        return notes.bare(f"mailto:{address}", written) if address else "mailto"
    if match["www"]:
        return notes.bare(_exact(text[match.start() : end], written), written)
    scheme, rest = match["scheme"], text[match.start("rest") : end]
    if not rest:
        # Prose about the scheme itself ("must start with http://").
        return scheme
    before = text[match.start() - 1 : match.start()]
    alone = not (before.isalnum() or before in ("/", "\\", "&", "%", "_", ":", ".", "@"))
    if endpoints and alone and scheme in ("http", "https", "ws", "wss", "ftp"):
        endpoint = _endpoint(rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest)
        if endpoint:
            return notes.local(f"{scheme}://{rest}", endpoint)
    return notes.bare(_exact(f"{scheme}://{rest}", written), written)


def _exact(address: str, written: str) -> str:
    """Returns an address with its percent signs and entities as the source has them, where its host is plain."""
    plain = written.partition("+")[2] if re.match(r"[a-zA-Z0-9]+\+", written) else written
    starts = _SCHEME.match(plain) or _WWW.match(plain)
    same = plain.isascii() and starts and not _ESCAPED_START.search(plain) and "\\" not in plain
    return plain if same else address


def _endpoint(rest: str) -> str:
    """Returns an address without its scheme where it leads nowhere outside, else an empty text."""
    path, question, query = rest.partition("?")
    if not _ENDPOINT.fullmatch(path) or (question and not _PLAIN_QUERY.fullmatch(query)):
        return ""
    return "" if _UNSAFE.search(path + question + query) else path + question + query


# ---- reading a text as a lenient renderer would


def _fold(text: str) -> tuple[str, str, Callable[[int], int]]:
    """Returns a text as a browser would compare it and as it would show it, and where their offsets lie in `text`."""
    decoded, origin = _decode(text)
    if decoded.isascii():
        return decoded.lower(), decoded, origin
    table = {ord(char): _plain_form(char) for char in set(decoded) if ord(char) > 127 or char.isupper()}
    return decoded.translate(table), decoded, origin


def _plain_form(char: str) -> str:
    if char in "\u3002\uff61":
        return "."
    if char in "\u2044\u2215\u29f8\u2571":
        return "/"
    if char in "\ua789\u2236\ufe55":
        return ":"
    plain = unicodedata.normalize("NFKC", char)
    plain = plain.lower() if len(plain) == 1 else char
    return plain if len(plain) == 1 else char


def _decode(text: str) -> tuple[str, Callable[[int], int]]:
    if "&" not in text and "%" not in text and "\\" not in text:
        return text, lambda offset: offset
    pieces: list[str] = []
    starts, shifts = [0], [0]
    last = length = shift = 0
    for match in _ENCODED.finditer(text):
        char = _decoded(match)
        if char is None:
            continue
        pieces += (text[last : match.start()], char)
        length += match.start() - last + len(char)
        last = match.end()
        shift += match.end() - match.start() - len(char)
        starts.append(length)
        shifts.append(shift)
    if not pieces:
        return text, lambda offset: offset
    pieces.append(text[last:])
    return "".join(pieces), lambda offset: offset + shifts[bisect_right(starts, offset) - 1]


_NAMED: Final = {
    "colon": ":",
    "sol": "/",
    "period": ".",
    "bsol": "\\",
    "num": "#",
    "lpar": "(",
    "rpar": ")",
    "lsqb": "[",
    "lbrack": "[",
    "rsqb": "]",
    "rbrack": "]",
    "commat": "@",
    "lowbar": "_",
    "tab": "",
    "newline": "",
    "shy": "",
    "zerowidthspace": "",
    "nbsp": " ",
}


def _decoded(match: re.Match[str]) -> str | None:
    hexadecimal, decimal, named, percent, escape, short, plain = match.groups()
    if named:
        return _NAMED[named.lower()]
    if plain:
        return str(plain)
    code = int(decimal) if decimal else int(hexadecimal or percent or escape or short, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return None
    char = chr(code)
    return "" if _HIDDEN.match(char) or char in "\t\n\r" else char


# ---- HTML


def _tags(text: str, notes: _Notes, code: bool) -> str:
    if "<" not in text:
        return text
    pieces: list[str] = []
    waiting: list[str] = []
    last = 0
    last_closing = text.lower().rfind("</a")
    for match in _TAG_START.finditer(text):
        if match.start() < last:
            continue
        tag = _tag(text, match, code)
        if tag is None:
            continue
        replacement, end, links = tag
        places = "".join(f" {place}" for place in map(notes.take, links) if place)
        if replacement is None:
            continue
        if match.group().lower() == "<a" and end <= last_closing:
            # The place of a link stands behind its words.
            waiting.append(places)
            places = ""
        elif match.group().lower() == "</a" and waiting:
            places = waiting.pop()
        pieces += (text[last : match.start()], replacement, places)
        last = end
    pieces += (text[last:], *waiting)
    return "".join(pieces)


def _tag(text: str, match: re.Match[str], code: bool) -> tuple[str | None, int, list[str]] | None:
    """Returns what a tag becomes (None: it stays), where it ends and its links; None if there is no whole tag."""
    name = match.group(1).lower()
    position, limit = match.end(), match.start() + MAX_TAG
    kept: list[str] = []
    links: list[str] = []
    words = key = ""
    while not (end := _TAG_END.match(text, position)):
        attribute = _ATTRIBUTE.match(text, position)
        if attribute is None or attribute.end() > limit or attribute.end() == position:
            # A tag that is open here may be closed by the next fragment, and so may an attribute that is waiting.
            waiting = _WAITING.match(text, position) if key in LINK_ATTRIBUTES else None
            return ("", waiting.end() if waiting else position, links) if links or waiting else None
        position = attribute.end()
        key, value = attribute["name"].lower(), attribute["value"] or ""
        if _leads(name, key, value, code):
            links.append(value.strip("\"'"))
        else:
            kept.append(attribute.group())
            if name == "img" and key == "alt":
                words = value.strip("\"'")
    closing = name == "a" and text.startswith("</", match.start())
    if closing or (links and name in LINK_TAGS):
        return "", end.end(), links
    if not links:
        return None, end.end(), links
    if name == "img":
        return re.sub(r"[<>]", "", words), end.end(), links
    return match.group() + "".join(kept) + end.group(), end.end(), links


def _leads(tag: str, key: str, value: str, code: bool) -> bool:
    if not value or key not in LINK_ATTRIBUTES or value.startswith("{"):
        return False
    if key in AMBIGUOUS_ATTRIBUTES:
        return bool(_ADDRESS.search(html.unescape(value.strip("\"'"))))
    return not code or tag in LINK_TAGS or bool(_URLISH.search(value))


# ---- Markdown


def _markdown(text: str, notes: _Notes, code: bool) -> str:
    if "]" not in text:
        return text
    definitions = _Definitions()
    text = _DEFINITION.sub(lambda match: definitions.take(match, code), text)
    drops = list(_link_parts(text, definitions, notes, code))
    pieces: list[str] = []
    last = 0
    for start, end, place in sorted(drops):
        if start >= last:
            pieces += (text[last:start], place)
            last = end
    pieces.append(text[last:])
    return definitions.finish("".join(pieces), notes)


class _Definitions:
    """The definitions of a text's links (``[label]: target``); one that nothing refers to leaves its own place."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}
        self.used: set[str] = set()
        self._labels: list[tuple[str, str]] = []

    def take(self, match: re.Match[str], code: bool) -> str:
        target = match["target"].strip("<>")
        if code and not _ADDRESS.match(html.unescape(target).lstrip()):
            return match.group()
        label = _label(match["label"])
        self.targets.setdefault(label, target)
        self._labels.append((label, target))
        return f"{_DEFINED}{len(self._labels) - 1}{_DEFINED}"

    def finish(self, text: str, notes: _Notes) -> str:
        if not self._labels:
            return text

        def left(match: re.Match[str]) -> str:
            label, target = self._labels[int(match.group(1))]
            place = notes.take(target)
            return f"{place}\n" if place and label not in self.used else ""

        return re.sub(f"{_DEFINED}(\\d+){_DEFINED}", left, text)


def _label(text: str) -> str:
    return " ".join(text.split()).casefold()


def _link_parts(text: str, definitions: _Definitions, notes: _Notes, code: bool) -> Iterator[tuple[int, int, str]]:
    """Yields the spans to drop, the brackets around the words of a link and its target, with what stands there then.

    In a block of code, where a reader sees the markup, the place stands for all of it.
    """
    fenced = _fenced(text) if notes.places is not None else []
    opened: list[tuple[int, int]] = []
    resume = 0
    for match in _BRACKET.finditer(text):
        token, start = match.group(), match.start()
        if start < resume or token[0] == "\\":
            continue
        if token != "]":
            opened.append((start, match.end()))
            continue
        opener = opened.pop() if opened else None
        after = match.end()
        target = None
        if text.startswith("(", after):
            target = _TARGET.match(text, after) or _LOOSE_TARGET.match(text, after)
        if target is not None:
            if not _is_link(text, opener, target["target"], code):
                continue
            resume = target.end()
            link = re.sub(r"\\([()\\<>_*])", r"\1", target["target"])
            if opener is not None and _in_fence(fenced, opener[0]) and _plain_words(text[opener[1] : start]):
                place = notes.take(link, whole=text[opener[0] : resume])
                if place:
                    yield opener[0], resume, place
                    continue
            place = notes.take(link)
        elif text.startswith("[", after) and definitions.targets:
            reference = _REFERENCE.match(text, after)
            words = text[opener[1] : start] if opener and start - opener[1] <= MAX_TARGET else ""
            label = _label((reference.group(1) if reference else "") or words)
            if reference is None or label not in definitions.targets:
                continue
            definitions.used.add(label)
            place = notes.take(definitions.targets[label])
            resume = reference.end()
        else:
            continue
        if opener is not None:
            yield (*opener, "")
        yield start, resume, f" {place}" if place else ""


def _plain_words(words: str) -> bool:
    return len(words) <= MAX_WORDS and not _BARE.search(words.lower()) and not re.search(r"[<\[\]&%\\\n]", words)


def _fenced(text: str) -> list[int]:
    """Returns where blocks of code begin and end, in turns."""
    if "```" not in text and "~~~" not in text:
        return []
    bounds: list[int] = []
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence or match.group(1).startswith(fence):
            fence = "" if fence else match.group(1)
            bounds.append(match.start())
    return bounds


def _in_fence(bounds: list[int], place: int) -> bool:
    return bool(bisect_right(bounds, place) % 2)


def _is_link(text: str, opener: tuple[int, int] | None, target: str, code: bool) -> bool:
    # `ptr.To[int32](1)` and `handlers[name](event)` are calls; a link stands free or leads to an address.
    position = opener[0] if opener else 0
    free = position == 0 or not (text[position - 1].isalnum() or text[position - 1] in "_)]\"'")
    if _ADDRESS.match(html.unescape(target).lstrip()) or re.search(r"\.(?:md|html?)\b|^[\w-]+(?:/[\w.-]+)+$", target):
        return True
    if _URLISH.search(target):
        return True
    # `[a-z0-9]([-a-z0-9]*[a-z0-9])?` is a pattern, in prose as well as in a schema.
    return free and not code and not _PATTERN.search(target)
