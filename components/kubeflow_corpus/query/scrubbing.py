"""Takes secrets, addresses and names of mailboxes out of a text that is to be kept.

A question is often a pasted log. What is taken out leaves its kind in braces, so that the rest reads on. Where a text
may be a secret it is one: a lost word of a question costs less than a stored password.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

SECRET: Final = "{secret}"
EMAIL: Final = "{email}"
ADDRESS: Final = "{address}"

# What is read of a longer text; a value that this would cut in the middle is left out whole.
MAX_CHARACTERS: Final = 4_000

_I: Final = re.IGNORECASE
# Names whose values are secret, as variables, options, headers, keys of YAML and JSON, and words of a sentence. In
# Kubernetes `secretName` and the like name an object.
_NAMES: Final = (
    r"(?:pass(?:word|wd|code)|pwd|secret(?!s\b|[-_]?name|[-_]?key[-_]?ref|[-_]?ref)|token|credentials?|cookie|otp|"
    r"authorization|session[_-]?id|pin[_-]?code|connection[_ -]?string|kennwort|passwort|mot de passe|contrase\u00f1a|"
    r"(?:api|access|account|auth|client|encryption|private|shared|signing|ssh|storage|master)[_. -]?keys?)"
)
_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)|`[^`]*(?:`|\Z)"
_DONE: Final = r"(?!\{(?:secret|email|address)\})"
# After `is` a sentence may go on instead of naming a value.
_ORDINARY: Final = (
    r"(?:a|an|the|not|no|never|in|on|of|for|to|from|with|by|and|or|it|its|my|this|that|there|empty|null|none|nil|unset|"
    r"set|missing|required|invalid|valid|wrong|incorrect|expired|rejected|refused|denied|rotated|stored|used|created|"
    r"mounted|encrypted|changed|too|always|only|still|already|being|needed|what|where|how|why|when)\b"
)
_GOES_ON: Final = r"(?:and|but|so|when|why|how|then|or|because|if)\b"

_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [^-]{0,60}-----.*?(?:-----END [^-]{0,60}-----|\Z)", re.DOTALL)
_HEADER: Final = re.compile(r"\b(?:bearer|basic|digest|negotiate)\s+[\w.~+/=:-]{6,}", _I)
_AUTHORIZATION: Final = re.compile(
    r"\b(authorization|cookie|x-[\w-]{0,30}(?:key|token|auth)[\w-]{0,30})\s*[:=][^\n\"'`]*", _I
)
_URL: Final = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,30}://[^\s\"'<>`]+|\bwww\.[^\s\"'<>`]+", _I)
_AT: Final = re.compile(r"(?<![^\s@\"'<>`()\[\]])[^\s@\"'<>`()\[\]]+@[^\s\"'<>`()\[\],;]+")
_MAILTO: Final = re.compile(r"\bmailto:\S+", _I)
_NAMED_VALUE: Final = re.compile(
    rf"({_NAMES}[\w-]{{0,30}}[\"'`]?\s*(?:=>|:=|[=:])\s*){_DONE}(?:{_QUOTED}|[|>][-+]?\s*\n[ \t]+[^\n]*|\S+)", _I
)
_PASSPHRASE: Final = re.compile(rf"(passphrase\s*(?:[=:]|is\s)\s*){_DONE}(?:{_QUOTED}|[^\n]+)", _I)
_NAMED_OPTION: Final = re.compile(
    rf"((?<!\S)--?(?:[\w-]{{0,30}}-)?(?:{_NAMES})[\w-]{{0,30}}\s+){_DONE}(?:{_QUOTED}|\S+)", _I
)
# What programs that log in take as a password.
_LOGIN: Final = re.compile(
    rf"(\b(?:mysql\w*|mariadb|sshpass|redis-cli|curl|wget|psql|(?:docker|podman|helm|oras|crane|az|argocd)\b[^\n]{{0,40}}"
    rf"\blogin)\b[^\n]{{0,200}}?\s(?:-p|-a|-u|--user)\s*){_DONE}(?:{_QUOTED}|\S+)",
    _I,
)
_OPTION: Final = re.compile(rf"((?<!\S)(?:-u|--user|-p)\s*){_DONE}(?:{_QUOTED}|\S*[:\d]\S*)", _I)
_SAID: Final = re.compile(
    rf"({_NAMES}\b\W{{0,3}}(?:is|was|are|reads|equals)\s+)(?!{_ORDINARY}){_DONE}"
    rf"(?:{_QUOTED}|\S+(?:[ \t]+(?!{_GOES_ON})\S+){{0,5}})",
    _I,
)
_NETRC: Final = re.compile(r"(\blogin\s+\S+\s+password\s+)\S+", _I)
# `password hunter2`: a word with a digit or a sign behind such a name is hardly a word.
_FOLLOWED: Final = re.compile(rf"({_NAMES}\s+){_DONE}(?:{_QUOTED}|(?=\S*[\d!@#$%^&*])\S{{4,}})", _I)
_KNOWN_TOKENS: Final = re.compile(
    r"\b(?:gh[opsur]_\w{10,}|github_pat_\w{10,}|glpat-[\w-]{10,}|gl(?:dt|rt|cbt|ptt|oas)-[\w-]{10,}|xox[a-z]-[\w-]{8,}|"
    r"xapp-[\w-]{8,}|sk-[\w-]{12,}|[sprk]k_(?:live|test)_\w{8,}|hf_\w{8,}|npm_\w{10,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|"
    r"(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}|SG\.[\w-]{10,}\.[\w-]{10,}|"
    r"hv[sb]\.[\w-]{10,}|dop_v1_\w{10,}|shp(?:at|ss|ca|pa)_\w{10,}|lin_api_\w{10,}|eyJ[\w-]{6,}(?:\.[\w-]*){0,2}|"
    r"AGE-SECRET-KEY-\w+|ssh-(?:rsa|ed25519|dss)\s+[\w+/=]{20,})"
)
_IDENTIFIER: Final = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-f]{24,}\b", _I)
# The words of a name such as `KubeflowPipelinesV2`.
_PIECES: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_LONG: Final = re.compile(r"[\w+/=-]{20,}")
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+|/\d+)?(?![\w.]*\d)")
_IPV6: Final = re.compile(
    r"(?<![\w:])(?=[0-9a-f:]{0,39}\d)(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){0,6}(?::[0-9a-f]{1,4}){1,7})"
    r"(?:%\w+)?(?![\w:])",
    _I,
)
_MAC: Final = re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", _I)
# A host inside somebody's network, and any host with a port.
_HOST: Final = re.compile(
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:(?:local|internal|intern|corp|lan|intra|intranet|home|private|svc)\b(?::\d+)?|"
    r"[a-z]{2,12}:\d{2,5}\b)",
    _I,
)


def scrub(text: str) -> str:
    """Returns a text without what must not be kept.

    Args:
        text: A question, a note or a filter, from anybody.
    """
    text = _bounded(unicodedata.normalize("NFKC", text))
    # Characters that are not shown would hide a secret from every pattern.
    text = "".join(
        char for char in text if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")
    )
    lowered = text.lower()
    for signs, pattern, replaced in _RULES:
        # Most questions have no sign of anything: to look for a few letters costs a tenth of a pattern.
        if any(sign in lowered for sign in signs):
            text = pattern.sub(replaced, text)
    return text


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    head = text[:MAX_CHARACTERS]
    # The last word may be half a secret, which no pattern knows.
    return head[: max(head.rfind(" "), head.rfind("\n"), 0)] + " ..."


def _behind_name(match: re.Match[str]) -> str:
    return f"{match.group(1)}{SECRET}"


def _header(match: re.Match[str]) -> str:
    return f"{match.group(1)}: {SECRET}"


def _if_random(match: re.Match[str]) -> str:
    return SECRET if _is_random(match.group()) else match.group()


def _is_random(text: str) -> bool:
    """Whether a long run of characters is hardly a name: small and large letters and digits in short pieces."""
    pieces = _PIECES.findall(text)
    length = sum(map(len, pieces)) / max(len(pieces), 1)
    digits = sum(piece.isdigit() for piece in pieces)
    mixed = any(map(str.islower, text)) and any(map(str.isupper, text))
    # One word of letters and digits that long is a key, too; the names of pods have hyphens.
    return (mixed and length < 3.5) or (digits >= 3 and len(text) >= 24 and text.isalnum())


# What a text that a name of `_NAMES` is in has for sure.
_NAME_SIGNS: Final = (
    *("pass", "pwd", "secret", "token", "cred", "cookie", "otp", "auth", "session", "pin", "connection", "key"),
    *("wort", "mot de", "contrase"),
)
# Signs of which a text has one, in small letters; the pattern; what stands there instead. In this order: a value that
# is taken out whole is not looked into.
_RULES: Final[tuple[tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (("-----begin",), _PRIVATE_KEY, SECRET),
    (("auth", "cookie", "x-"), _AUTHORIZATION, _header),
    (("bearer", "basic", "digest", "negotiate"), _HEADER, SECRET),
    (("",), _KNOWN_TOKENS, SECRET),
    (("mailto:",), _MAILTO, EMAIL),
    (("://", "www."), _URL, ADDRESS),
    (("passphrase",), _PASSPHRASE, _behind_name),
    (_NAME_SIGNS, _NAMED_VALUE, _behind_name),
    (("-",), _NAMED_OPTION, _behind_name),
    (("-p", "-a", "-u"), _LOGIN, _behind_name),
    (("-u", "--user", "-p"), _OPTION, _behind_name),
    (_NAME_SIGNS, _SAID, _behind_name),
    (("login",), _NETRC, _behind_name),
    (_NAME_SIGNS, _FOLLOWED, _behind_name),
    (("@",), _AT, EMAIL),
    (("",), _IDENTIFIER, SECRET),
    (("",), _LONG, _if_random),
    ((":", "-"), _MAC, ADDRESS),
    ((".",), _IPV4, ADDRESS),
    ((":",), _IPV6, ADDRESS),
    ((".",), _HOST, ADDRESS),
)
