"""Text and not markup: what a renderer could make a link, an image, a resource or a label of is taken apart.

`links` recognises addresses to keep the words around them readable, and no list of what to recognise is ever complete.
Here nothing is recognised but what is plain: every other beginning of a tag, a target or a definition is broken by a
blank, whatever follows it and however long that is. Breaking is the same for a part of a text as for the whole, so that
parts that are put together make no new markup.
"""

from __future__ import annotations

import re
from typing import Final

# Elements that load, run, lead somewhere, or change how the rest is read, even without an attribute.
_ACTIVE: Final = frozenset(
    ("a", "applet", "area", "audio", "base", "bgsound", "button", "embed", "form", "frame", "frameset", "iframe")
    + ("image", "img", "input", "isindex", "keygen", "link", "map", "math", "meta", "noembed", "noframes", "noscript")
    + ("object", "param", "picture", "plaintext", "portal", "script", "select", "source", "style", "svg", "template")
    + ("textarea", "title", "track", "video", "xmp")
)
# `<name>`, `</b>`, `<K, V>`, `<your own name>`: no value, so nothing that an attribute could lead to.
_ANGLE: Final = re.compile(r"<(?:/?(?P<name>[A-Za-z][\w.-]{0,60})(?:[ \t,|&*][\w ,.|&*\[\]-]{0,80})?/?>)?")
# The name of a here-document (`<<EOF`): an unknown element, and one without attributes where no `=` comes
# before it ends: at the first `>`, for a `<` inside of a tag is a letter like any other. Such commands are
# copied, so they stay as they are.
_HERE_DOCUMENT: Final = re.compile(r"(?<=<<)(?P<name>[A-Z_]{2,20})(?=[\s|>]|\Z)[^=>]{0,4000}(?=>|\Z)")
_OPENS: Final = re.compile(r"[A-Za-z/!?]|[^<>\s]*@")
_TARGET: Final = re.compile(r"\]\((?![^\n:/\\&%#?@<>]{0,300}\))")
_COLON: Final = re.compile(r"\]:")
# Brackets further apart are not the index of something.
_LONGEST_INDEX: Final = 200
_IMAGE: Final = re.compile(r"!(?=\[)")
_HOST: Final = re.compile(r"(?<![\w:/\\-])//(?=[\w-]+\.[\w-])")
_SCHEME: Final = re.compile(r"(?:https?|s?ftps?|wss?|mailto|javascript|vbscript):(?=[/\\])", re.IGNORECASE | re.ASCII)
# How a label of ours can be spelled: brackets in any form, and marks between them that a renderer would not show.
_LEFT: Final = r"(?:\\?[\[\uff3b\u27e6]|&(?:amp;)?(?:#0{0,7}91|#[xX]0{0,7}5[bB]|lsqb|lbrack);?)"
_RIGHT: Final = r"(?:\\?[\]\uff3d\u27e7]|&(?:amp;)?(?:#0{0,7}93|#[xX]0{0,7}5[dD]|rsqb|rbrack);?)"
_DRESS: Final = r"[\s*_`~\\\"'^]{0,12}"
# What stands between the numbers of a label that names several: one class, so that it matches in one way only.
_BETWEEN: Final = r"[\s*_`~\\\"'^,;&.-]{1,25}+"
_LABEL: Final = re.compile(
    rf"{_LEFT}{_DRESS}(?P<label>[cC\uff43\uff23]{_DRESS}\d{{1,6}}(?:{_BETWEEN}[cC]?\d{{1,6}}){{0,30}}+){_DRESS}{_RIGHT}"
)


def take_apart(text: str) -> str:
    """Returns a text in which nothing is a tag, an image, an autolink, a target or a definition any more.

    Taking it apart twice gives what once gives.
    """
    if "<" in text:
        text = _ANGLE.sub(_angle, text)
    if "]" in text:
        text = _COLON.sub(_colon, _TARGET.sub("] (", text))
    if "![" in text:
        text = _IMAGE.sub("! ", text)
    return _HOST.sub("// ", _SCHEME.sub(lambda match: f"{match.group()} ", text))


def _angle(match: re.Match[str]) -> str:
    name = match["name"]
    if name and name.lower() not in _ACTIVE:
        return match.group()
    here = _HERE_DOCUMENT.match(match.string, match.end())
    if here and here["name"].lower() not in _ACTIVE:
        return match.group()
    rest = match.group()[1:]
    opens = rest or _OPENS.match(match.string, match.end())
    return f"< {rest}" if opens else "<"


def _colon(match: re.Match[str]) -> str:
    """Breaks what may be the end of a definition's label: all but the index of something (`names[0]:`)."""
    text, end = match.string, match.start()
    start = text.rfind("[", max(0, end - _LONGEST_INDEX), end)
    index = start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_)") and "\n" not in text[start:end]
    return match.group() if index else "] :"


def defuse_labels(text: str) -> str:
    """Makes what looks like one of our labels look like something else, so that a text cannot cite itself."""
    return _LABEL.sub(lambda match: f"\u2039{match['label']}\u203a", text)
