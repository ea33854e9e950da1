"""What a question wants, by rules that a person can read: no model, no state, the reason returned with the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from kubeflow_corpus.query.tuning import IntentName
from kubeflow_corpus.terms import identifier_parts, release_in_text, version_precisions
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary, either

# Words that a question uses and an answer rarely repeats.
STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a about all also am an and any are as at be been being but by can could did do does doing for from "
        "get gets give had has have having here how i if in into is it its just let like many me more most "
        "much my need needed no of on or our out please s should show so some t tell than that the their them "
        "then there these they this those to too up us use used using want was way we were what when where "
        "which while who whom why will with would you your",
    )
)


class _Rule:
    """A pattern that is compiled when a question is first read: half of what importing this library would cost."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """Finds the first place that matches."""
        return re.compile(self._source, self._flags).search


def _any(patterns: tuple[str, ...], flags: int = 0) -> _Rule:
    """Returns one rule that matches where any of these does; the first of the list wins at one place."""
    return _Rule("|".join(patterns), flags)


# A question of more words than this that names nothing but a kind is a sentence.
MAX_KIND_WORDS: Final = 5
# A release number with two or more parts; not a part of a longer name, an address or a decimal beside letters.
_VERSION: Final = release_in_text("$-", r"[\w%]|\.\d", re.IGNORECASE)
_API_MAJOR: Final = re.compile(r"(?<![\w/.])v[12](?![\w.])", re.IGNORECASE)
_API_VERSION: Final = re.compile(r"\bv\d+(?:alpha|beta)\d+\b", re.IGNORECASE)
_LEGACY: Final = (r"\blegacy\b", r"\bmigrat\w+", r"\bdeprecated\b", r"\bupgrad\w+ (?:from|to) v[12]\b")

# What a question does not want: "with 1.10 (not 1.11)". It is neither preferred nor searched for.
_NOT_WANTED: Final = re.compile(
    r"\(?\b(?:not|rather than|instead of|except|excluding) (?:the |in |for |version |release )?v?\d+(?:\.\d+)+\)?",
    re.IGNORECASE,
)

# Names that are written as a program writes them.
_QUOTED: Final = re.compile(r"\"[^\"]{3,200}\"|“[^”]{3,200}”|`[^`]{3,200}`|(?<!\w)'[^']{3,200}'(?!\w)")
_ENV: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_FLAG: Final = re.compile(r"(?<![\w-])--?[a-z][\w-]{1,60}(?:=\S+)?(?![\w])|(?<![\w-])--[A-Za-z][\w-]+")
_DOTTED: Final = re.compile(r"(?<![\w/.])(?=[\w.]*[A-Za-z]{2})[A-Za-z_]\w*(?:\.[A-Za-z_][\w-]*)+(?:\(\))?(?![\w/])")
_SNAKE: Final = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
_CAMEL: Final = re.compile(r"\b[a-z][a-z0-9]*+[A-Z]\w*\b")
_PASCAL: Final = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b|\b[A-Z]{2,}[a-z]+[A-Z]\w*\b")
_GROUP: Final = re.compile(r"\b(?<!\w\.)[\w-]+(?:\.[\w-]+)+/[\w.-]+\b")
# Each with a character that it never lacks: most questions need not be searched for it.
_NAMES: Final = (
    ("/", _GROUP),
    (".", _DOTTED),
    ("_", _ENV),
    ("-", _FLAG),
    ("_", _SNAKE),
    ("", _CAMEL),
    ("", _PASCAL),
)
# Words that look like camelCase and are names of products, beside those of the vocabulary.
_PRODUCT_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "pytorch tensorflow mlflow jupyterlab github deepspeed lightgbm xgboost openshift "
        "minio postgresql mysql huggingface vllm oauth oidc javascript typescript fastapi grafana "
        "macos jax mlx opentelemetry statsmodels pyspark numpy sklearn autogluon cicd devops istio "
        "aws gcp ibm vscode sagemaker vertexai",
    )
)

# Two amounts in the words of a program, "(52428800 vs. 16777216)": nobody asks to compare them. Releases have dots.
_AMOUNTS: Final = (
    r"\([^()]{0,80}(?<![\w.])\d[\d,]{0,20}(?: ?[A-Za-z]{1,5})? vs\.? \d[\d,]{0,20}(?!\.?\d)[^()]{0,80}\)"
    r"|(?<![\w.])\d[\d,]{3,20}(?: ?[A-Za-z]{1,5})? vs\.? \d[\d,]{3,20}(?!\.\d)"
)
_MEASURED: Final = re.compile(_AMOUNTS)
_ERROR: Final = _any(
    (
        # Numbers with which programs name an error: HTTP, SQL and gRPC, alone, in brackets or before their text.
        r"\b(?:[Ee]rror|ERROR)(?: [Cc]ode)?:? ?#?\d{2,5}\b",
        r"\b[45]\d\d ?[:-] ?[A-Z]\w+",
        r"\b[45]\d\d (?:[A-Z][a-z]+ ?)+",
        r"\bHTTP(?:/[\d.]+)?(?: (?:status|error|response|code)){0,3}:? ?[45]\d\d\b",
        r"\b[Ss]tatus ?[Cc]ode:? ?[1-5]\d\d\b",
        r"\bstatus [45]\d\d\b",
        r"\b[Cc]ode: ?\d+,",
        r"\[(?:[45]\d\d|[A-Z]+-?\d{2,5}|(?:[Ee]rr(?:no|or)?|[Ee]rrorCode|HTTP|[Cc]ode)[ :#]?-?\d+|SSL: ?\w+)\]",
        r"\b(?:Internal Server Error|Bad Gateway|Gateway Time-?out|Service Unavailable|Request Entity Too Large)\b",
        r"\b(?:UNAVAILABLE|UNAUTHENTICATED|UNIMPLEMENTED|ABORTED|[A-Z]{4,}_(?:DENIED|EXCEEDED|EXHAUSTED|ARGUMENT))\b",
        r"\bSQLSTATE\b|\(HY000\)|\bpq: ",
        _AMOUNTS,
        # What Go's network and Kubernetes' validation say.
        r"\bdial tcp\b",
        r"\bi/o timeout\b",
        r"\bconnection reset by peer\b",
        r"\bTLS handshake\b",
        r"\bInvalid value: ",
        r"\b[Aa]ccess denied\b",
        r"\b\w+(?:Error|Exception|Failure)\b",
        r"\b\w*(?:BackOff|Killed|Evicted)\b",
        r"\b(?:ImagePull|ErrImage)\w+",
        r"^error\b",
        r"\berror:",
        r"\bfailed (?:to|with|calling)\b",
        r"\b(?:cannot|unable to) \w+ .{0,60}:",
        r"\bno matches for kind\b",
        r"\b[Pp]ermission denied\b",
        r"\bforbidden:",
        r"\bx509\b",
        r"\brpc error\b",
        r"\bexit (?:code|status) \d+",
        r"\bcode ?= ?\w+",
        r"\bTraceback\b",
        r"\bpanic:",
        r"\bno such (?:file|host)\b",
        r"\bconnection refused\b",
        r"\bcontext deadline exceeded\b",
        r"\bhas no attribute\b",
        r"\bexceeded quota\b",
        r"\badmission webhook\b",
        r"\b[Nn]o module named\b",
        r"\bis not a valid\b",
        r"\bupstream connect error\b",
        r"\bJwt is missing\b",
        r"\bundefined: \w+",
        r"\binvalid memory address\b",
        r"\bnot found in\b.*\b(?:registry|cache|scheme)\b",
    ),
)

_COMPARISON: Final = _any(
    (
        r"\bcompar(?:e|es|ed|ing|isons?)\b",
        r"\bdifferen(?:ces?|t)\b.{0,80}\b(?:between|from|to)\b",
        r"\bdiffers?\b",
        r"\bvs\b\.?",
        r"\bversus\b",
        r"\b(?:new|chang\w+)\b.{0,60}\bbetween\b",
        r"\bchang(?:ed|es)\b.{0,60}\bfrom\b.{0,40}\bto\b",
        r"\b(?:better|faster|simpler|newer) than\b",
        r"\bpros and cons\b",
        r"\bshould i (?:use|choose|pick)\b.{0,80}\bor\b",
        r"\bwhich (?:one )?(?:is|should|to)\b.{0,80}\bor\b",
        r"\bor\b.{0,80}\bwhich (?:one )?(?:is|should|to)\b",
        r"\badvantages? of\b.{0,80}\bover\b",
    ),
    re.IGNORECASE,
)
_RELEASED: Final = (
    r"releas\w*|publish\w*|ship(?:ped|s)?|announce\w*|launch\w*|tagged|(?:come|came|go|went) out"
    r"|(?:become|became) available|available"
)
_RELEASE_DATE: Final = _any(
    (
        rf"\bwhen\b.{{0,80}}\b(?:{_RELEASED})\b",
        r"\breleas\w* (?:date|day|time|month|year)s?\b",
        r"\bdates? (?:of|for)\b.{0,60}\breleas\w*",
        rf"\b(?:what|which) (?:date|day|month|year)\b.{{0,80}}\b(?:{_RELEASED})\b",
        r"\bhow old is\b",
        r"\bon (?:what|which) (?:date|day)\b",
        r"\breleased? (?:on|in) (?:what|which)\b",
        r"\bdate\b.{0,40}\b(?:released|published)\b",
        r"\bpublication date\b",
        rf"\bhow long ago\b.{{0,60}}\b(?:{_RELEASED})\b",
        r"\bwhen did\b.{0,60}\bland\b",
        r"\breleased when\b",
        r"\bGA date\b",
    ),
    re.IGNORECASE,
)
_NOT_A_DATE: Final = _any(
    (
        r"\bwhen (?:i|we|you|an?|the (?:pod|run|step|job|task|pipeline|trial|notebook|lock|lease|resource))\b",
        r"\bwhen \w+ing\b",
        r"\bwhen (?:are|is|do|does) .{0,40}\b(?:resources?|locks?|lease|pods?|gpus?|volumes?|memory|nodes?|metrics)\b",
        r"\bwhen (?:are|is|do|does) .{0,40}\b(?:models?|endpoints?)\b",
        r"^\W*(?:how(?! old| long)|why)\b",
    ),
    re.IGNORECASE,
)
_MONTHS: Final = "january|february|march|april|may|june|july|august|september|october|november|december"
_NEWEST: Final = (
    r"latest|newest|most recent|last|current|recent|upcoming|next|previous|first|oldest|earliest|up-to-date"
)
_RELEASE_NOUNS: Final = ("releases?", "versions?", "distribution")


def _temporal(words: Vocabulary) -> _Rule:
    noun = either((*_RELEASE_NOUNS, *words.releases))
    patterns = (
        rf"\b(?:{_NEWEST})\b(?: \w+){{0,4}} {noun}\b",
        rf"\b(?:{_NEWEST}) {either(words.latest)}\s*\??$",
        r"\bwhat(?:'s| is| was| are)? (?:the )?(?:latest|newest|most recent)\W*$",
        r"\bnew in (?:the )?(?:latest|newest|last|most recent)\b",
        rf"\b{noun}\b.{{0,40}}\b(?:is|are|was|were) (?:the )?(?:{_NEWEST})(?: ones?)?\W*$",
        r"\blist\b.{0,30}\breleases\b",
        rf"\breleas\w+ (?:\w+ )?(?:since|after|before|in|during|of) (?:the )?(?:early |late )?(?:20\d\d|{_MONTHS})\b",
        r"\breleas\w+ (?:in|during|of) (?:this|last) year\b",
        r"\breleased (?:this|last) (?:year|month|week)\b",
        rf"\b(?:list|order|history|timeline) of (?:all )?(?:{re.escape(words.project)} )?releases\b",
        r"\brelease (?:history|timeline|cadence)\b",
        r"\brecently released\b",
    )
    return _any(patterns, re.IGNORECASE)


def _conceptual(words: Vocabulary) -> _Rule:
    patterns = (
        r"^\W*(?:(?:hi|hello|hey|please|so|ok|and|but|then|also)\W+)*(?:how|why|explain|describe)\b",
        r"\bhow (?:do|does|can|should|to|is|are|would|could)\b",
        r"\bwhy\b",
        r"\bexplain\b",
        rf"\bwhat (?:is|are) {either(('an?', *words.concepts))}\b",
        r"\bwhat (?:is|are) the (?:purpose|role|idea|concept|point|architecture|life ?cycle)\b",
        r"^\W*what(?:'s| is| are) \w+\W*$",
        r"\bwhat (?:do|does)\b.{0,80}\b(?:do|mean|represent|stand for)\b",
        r"\boverview\b",
        r"\barchitecture\b",
        r"\bconcepts?\b",
        r"\bunderstand\w*\b",
        r"\bwhen should\b",
        r"\bbest practices?\b",
        r"\bintroduction\b",
        r"\bworks?\W*$",
        r"\bmeaning of\b",
        r"\bpurpose of\b",
        r"\bwhat happens\b",
    )
    return _any(patterns, re.IGNORECASE)


def _product_names(vocabulary: Vocabulary) -> tuple[tuple[str, ...], ...]:
    return tuple(product.asked for product in vocabulary.products if product.asked)


_DEFINITION: Final = _any(
    (
        r"^\W*(?:(?:so|and|please|hi|hello)\W+)?what(?:'s| is| are)\b"
        r"(?! (?:it|this|that|there|wrong|going|new|my|your|our)\b)",
        r"^\W*(?:please )?(?:define|explain|describe|introduc(?:e|tion to)|definition of|(?:an )?overview of)\b",
        r"^\W*tell me about\b",
        r"^\W*why (?:should (?:i|we|one) )?use\b",
        r"\boverview\W*$",
    ),
    re.IGNORECASE,
)
# "What is the default value of X" asks for a value, and "explain how" for an explanation.
_NOT_A_DEFINITION: Final = _any(
    (
        r"\b(?:default|values?|limits?|maximum|ports?|urls?|paths?|commands?|names?|reason|status|errors?)\b",
        r"\b(?:purpose|role|idea|point|architecture|life ?cycle|minimum|requirements?)\b",
        r"\b(?:how|why|when|if|which|where)\b.*\b(?:to|do|does|is|are|can|should)\b",
    ),
    re.IGNORECASE,
)
MAX_DEFINITION_WORDS: Final = 10
_INSTALLATION: Final = _any(
    (
        r"\b(?:install|installing|installation)\b",
        r"\bset(?:ting)? ?up\b",
        r"\bget(?:ting)? started\b",
        r"\bquick ?start\b",
    ),
    re.IGNORECASE,
)


class _Words:
    """The rules that hold words of a project."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Small letters are looked for in small letters: ignoring the case is several times slower.
        self.areas = tuple((product.name, _any(product.asked)) for product in vocabulary.products if product.asked)
        self.not_identifiers = _PRODUCT_WORDS | {word.lower() for word in vocabulary.not_identifiers}
        self.legacy = _any((*_LEGACY, *vocabulary.legacy), re.IGNORECASE)
        self.temporal = _temporal(vocabulary)
        self.conceptual = _conceptual(vocabulary)
        self.products = _any(tuple(rf"^\W*(?:the )?(?:{either(names)})\W*$" for names in _product_names(vocabulary)))
        self.project = vocabulary.project


@lru_cache(maxsize=16)
def _words(vocabulary: Vocabulary | None) -> _Words:
    return _Words(vocabulary or default_vocabulary())


@dataclass(frozen=True, slots=True)
class Intent:
    """What a question wants and how it is searched.

    Attributes:
        name: One of the six intents.
        mode: Lists that were asked for; set from the policy of the intent, or by the caller.
        reason: Why, in words that a person can check.
    """

    name: IntentName
    mode: str
    reason: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the rules read it.

    Attributes:
        text: The question.
        intent: What it wants.
        reason: Which rule said so, and on which words.
        versions: Releases that it names, without ``v``, as written; API majors as ``v1``, ``v2``.
        areas: Products that it names.
        identifiers: Names in a program's spelling.
        legacy: Whether it asks about a superseded generation.
        sides: For a comparison, the question once for each side.
        years: Years that it names.
        project: Name of the project that is searched.
        vocabulary: Its words; None is the packaged ones.
    """

    text: str
    intent: IntentName
    reason: str
    versions: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    legacy: bool = False
    sides: tuple[str, ...] = ()
    years: tuple[str, ...] = ()
    project: str = ""
    vocabulary: Vocabulary | None = None


def read(text: str, vocabulary: Vocabulary | None = None) -> Question:
    """Reads a question: the first rule of the table that matches decides.

    Args:
        text: As a person typed it.
        vocabulary: The words of the project; None is the packaged one.
    """
    words = _words(vocabulary)
    wanted = _NOT_WANTED.sub(" ", text)
    versions = named_versions(wanted)
    identifiers = named_identifiers(text, vocabulary)
    intent, reason = _intent(text, versions, identifiers, words)
    return Question(
        text=wanted if content_words(wanted) else text,
        intent=intent,
        reason=reason,
        versions=versions,
        areas=named_areas(text, vocabulary),
        identifiers=identifiers,
        legacy="v1" in versions or bool(words.legacy.search(text)),
        sides=_sides(text, versions) if intent == "comparison" else (),
        years=tuple(dict.fromkeys(re.findall(r"(?<![\w.-])20[12]\d(?![\w.]\d|-\d)", text))),
        project=words.project,
        vocabulary=vocabulary,
    )


def named_versions(text: str) -> tuple[str, ...]:
    """Returns the releases and API majors that a text names, in order, each once."""
    found = [
        (match.start(), match.group(1).lower()) for match in _VERSION.finditer(text) if not _is_number(text, match)
    ]
    found += [(match.start(), match.group().lower()) for match in _API_MAJOR.finditer(text)]
    return tuple(dict.fromkeys(version for _, version in sorted(found)))


_AMOUNT: Final = re.compile(
    r"(?:threshold|rate|value|ratio|weight|alpha|temperature|epsilon|of about|below|above|under)\s*(?:of|to|=|:|is)?$"
)


def _is_number(text: str, match: re.Match[str]) -> bool:
    # `0.5 GPU`, `threshold 0.9`, `10.0.0.1`: an amount or an address, not a release.
    after = text[match.end() : match.end() + 12].lower().strip()
    parts = re.split(r"[^\d.]", match.group(1))[0].strip(".").split(".")
    address = len(parts) == 4 or any(len(part) > 1 and part.startswith("0") for part in parts[:1])
    unit = re.match(r"(?:[gmk]i?b?|gpus?|cpus?|cores?|seconds?|ms|minutes?|hours?|percent|x)\b", after)
    before = text[: match.start()].lower().rstrip()
    amount = _AMOUNT.search(before)
    return bool(address or unit or amount)


def named_areas(text: str, vocabulary: Vocabulary | None = None) -> tuple[str, ...]:
    """Returns the product areas that a text names, in the order of the vocabulary."""
    lowered = text.lower()
    return tuple(area for area, pattern in _words(vocabulary).areas if pattern.search(lowered))


def named_identifiers(text: str, vocabulary: Vocabulary | None = None) -> tuple[str, ...]:
    """Returns the names in a text that are spelled as a program spells them, in order, each once."""
    spans = [match.span() for sign, pattern in _NAMES if sign in text for match in pattern.finditer(text)]
    names: dict[str, None] = {}
    others = _words(vocabulary).not_identifiers
    end = 0
    # The longest name at a place is the name; what lies inside it is a part of it.
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        name = text[start:stop]
        if start >= end and name.lower() not in others:
            names.setdefault(name)
            end = stop
    return tuple(names)


def content_words(text: str) -> tuple[str, ...]:
    """Returns the words of a question that an answer should hold: no stop words, parts of identifiers included."""
    words = (word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS)
    return tuple(dict.fromkeys((*words, *identifier_parts(text))))


def bm25_text(text: str) -> str:
    """Returns what BM25 searches for: the question with the parts of its identifiers, without stop words.

    Repeated words stay repeated: a person who says a word twice means it.
    """
    words = [word for word in re.findall(r"\w+", text) if word.lower() not in STOP_WORDS]
    return " ".join((*words, *dict.fromkeys(identifier_parts(text)))) or text


def precisions(versions: tuple[str, ...]) -> frozenset[str]:
    """Returns the spellings under which rows of these versions are found."""
    return frozenset(version_precisions(version)[0] if version_precisions(version) else version for version in versions)


def _intent(
    text: str, versions: tuple[str, ...], identifiers: tuple[str, ...], words: _Words
) -> tuple[IntentName, str]:
    quoted = _QUOTED.search(text)
    # What is in quotes is quoted, not asked.
    bare = _QUOTED.sub(" ", text) if quoted else text
    comparison = _COMPARISON.search(_MEASURED.sub(" ", bare))
    if comparison:
        return "comparison", f"compares ({comparison.group().strip()!r})"
    error = _ERROR.search(text)
    release = _RELEASE_DATE.search(bare)
    if release and not _NOT_A_DATE.search(bare):
        return "release_date", f"asks for a release date ({release.group().strip()!r})"
    temporal = words.temporal.search(bare)
    if temporal and not _asks_how(bare):
        return "temporal", f"asks what is latest or in an order of time ({temporal.group().strip()!r})"
    if quoted and len(bare.split()) <= 12:
        return "exact", f"quotes {quoted.group()}"
    if error:
        return "exact", f"holds an error string ({error.group().strip()!r})"
    strong = next((name for name in identifiers if _ENV.fullmatch(name) or name.startswith("-")), "")
    conceptual = words.conceptual.search(bare)
    first = _first_question(bare, words) if conceptual or not (strong or versions) else None
    if conceptual:
        if first:
            return first
        return "conceptual", f"asks how, why or what ({conceptual.group().strip()!r})"
    if strong:
        return "exact", f"names the key {strong}"
    # A kind (`ConfigMap`) is a word of everyday sentences; alone, or among few words, it is what is looked for.
    length = len(re.findall(r"\w+", bare))
    key = next((name for name in identifiers if not _PASCAL.fullmatch(name) or length <= MAX_KIND_WORDS), "")
    if key:
        return "exact", f"names the key {key}"
    number = next((version for version in versions if not _API_MAJOR.fullmatch(version)), "")
    api = _API_VERSION.search(bare)
    if number or api:
        return "exact", f"names the version {number or (api.group() if api else '')}"
    return first or ("general", "no other rule matched")


def _first_question(text: str, words: _Words) -> tuple[IntentName, str] | None:
    """Reads what newcomers ask: what a thing is, and how it is installed."""
    length = len(re.findall(r"\w+", text))
    if length > MAX_DEFINITION_WORDS:
        return None
    installs = _INSTALLATION.search(text)
    if installs:
        return "installation", f"asks how to install or begin ({installs.group().strip()!r})"
    defines = _DEFINITION.search(text)
    if defines and not _NOT_A_DEFINITION.search(text[defines.end() :]):
        return "definition", f"asks what something is ({defines.group().strip()!r})"
    if words.products.search(text.lower()):
        return "definition", "is the name of a product"
    return None


def _asks_how(text: str) -> bool:
    return bool(re.search(r"^\W*(?:how (?:do|can|to|should)|why)\b|\bhow to\b", text, re.IGNORECASE))


_SPLIT: Final = _any(
    (
        r"\bdifferen(?:ce|ces|t)\b.*?\bbetween (?P<a1>.+?) and (?P<b1>.+)",
        r"\bcompar\w+\b(?: between)? (?P<a2>.+?) (?:and|with|to|against|vs\.?|versus) (?P<b2>.+)",
        r"(?P<a3>.+?) (?:vs\.?|versus|compared (?:to|with)|or) (?P<b3>.+)",
        r"\bhow (?:do|does|is|are) (?P<a4>.+?) (?:differ(?:s|ent)? from|different to|better than) (?P<b4>.+)",
        r"\bchang\w+\b.*?\b(?:from|between) (?P<a5>.+?) (?:to|and) (?P<b5>.+)",
        r"(?P<a6>.+?) (?:and|differs? from|better than) (?P<b6>.+)",
    ),
    re.IGNORECASE,
)


def _sides(text: str, versions: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the question once for each side: what is compared, with what both sides share."""
    releases = [version for version in versions if not _API_MAJOR.fullmatch(version)] or list(versions)
    if len(releases) == 2:
        return tuple(_without(text, other) for other in reversed(releases))
    match = _SPLIT.search(text)
    if match is None:
        return ()
    left, right = (
        next(match[f"{side}{number}"] for number in range(1, 7) if match[f"{side}{number}"]) for side in "ab"
    )
    left, right = left.strip(" ?.,:"), right.strip(" ?.,:")
    return (left, right) if content_words(left) and content_words(right) else ()


def _without(text: str, version: str) -> str:
    return re.sub(rf"(?<![\w.])v?{re.escape(version)}(?![\w])", " ", text, flags=re.IGNORECASE)
