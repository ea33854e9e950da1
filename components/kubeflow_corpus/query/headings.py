"""What a heading says about its section, and how well that meets a question. Pure functions over words.

Most first questions (what is, why, how do I install) are headings, or nearly: a section whose heading is the question
answers it, whatever words its text repeats. What an English heading means holds for every project, so it stands here
and not in a vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kubeflow_corpus.query.intent import STOP_WORDS, Question
from kubeflow_corpus.query.tuning import Preferences

# A section of fewer words without code, such as "Documentation for X.", leads to answers and holds none.
ONE_LINE_WORDS: Final = 12
# What names a thing that a page defines is named in its first sentences.
_OPENING_CHARACTERS: Final = 600
_OPENING_SENTENCES: Final = 4
_SEPARATOR: Final = " > "

_WORD: Final = re.compile(r"[^\W_]+")
_SUFFIXES: Final = (
    *(("ies", "y"), ("ations", "ate"), ("ation", "ate"), ("ating", "ate")),
    *(("ing", ""), ("ed", ""), ("es", ""), ("s", "")),
)
_SHORTEST_STEM: Final = 3
_LEADS_ELSEWHERE: Final = re.compile(
    r"^\W*(?:\d+\W+)?(?:(?:what.?s )?next(?: steps?)?|see also|related\b.*|learn more|feedback|conclusion|summary|"
    r"(?:additional|further|more) (?:resources|reading|information)|resources|contents|table of contents|"
    r"prerequisites?|requirements|before you (?:begin|start|get started)|(?:getting|get) help|support|links)\W*$",
    re.IGNORECASE,
)
_DEFINES: Final = re.compile(
    r"^\W*+(?:what (?:is|are)\b|about\b|(?:an? )?(?:overview|introduction)\b|introducing\b|definition\b"
    r"|.*\boverview\W{0,20}$)",
    re.IGNORECASE,
)
_INSTALLS: Final = re.compile(
    r"\b(?:install(?:ing|ations?)?|set ?up|setting up|deploy(?:ing|ment)?|get(?:ting)? started|quick ?start)\b",
    re.IGNORECASE,
)
_ASKED_TO_INSTALL: Final = re.compile(
    r"\b(?:install\w*|set(?:ting)? ?up|get(?:ting)? started(?: with)?|quick ?start(?: guide)?)\b", re.IGNORECASE
)
_QUESTION_WORD: Final = re.compile(r"^\W*(what|why|how|when|who|which|where)\b", re.IGNORECASE)
_REFERENCE_PATH: Final = re.compile(r"(?:^|/)(?:[\w-]*-)?references?(?:/|\.\w+$)", re.IGNORECASE)
# Where the thing that is asked about ends: "what is a trial in that product" asks about trials.
_QUALIFIER: Final = re.compile(r"\b(?:in|of|for|on|with|within|from)\b", re.IGNORECASE)
# "A profile (beta) is a ...": the name before the verb.
_OPENING: Final = re.compile(
    r"^\W*+(?:(?:an?|the)\s+)?([^.,;:()\n]{2,60}?)\W{0,4}(?:\([^)\n]{1,40}\)\W{0,4})?"
    r"\s(?:is|are)\s+(?:an?|the|one|designed|used|responsible|\w+ing)\b",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"\n\s*\n|(?<=\.)\s")


@lru_cache(maxsize=32_768)
def stems(text: str) -> frozenset[str]:
    """Returns the content words of a heading or a question without their endings: "Installing" meets "install"."""
    return frozenset(_stem(word) for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)


def _stem(word: str) -> str:
    for suffix, end in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return (word[: -len(suffix)] + end).rstrip("e")
    return word.rstrip("e") if len(word) > _SHORTEST_STEM else word


# What headings and questions say of any subject.
_ANY_SUBJECT: Final = stems("overview introduction introducing definition define explain describe background")


@dataclass(frozen=True, slots=True)
class Heading:
    """What the headings and the path of a section say.

    Attributes:
        words: Every word of its own heading, in order; the page's title for what stands before the first heading.
        stems: Content words of it.
        context: Those of the title, the headings above and the folders.
        folder: Those of the folder of its page.
        asks: The question word that it begins with.
        leads_elsewhere: Whether it only leads to other pages, or away from the subject.
        defines: Whether it says that a definition follows.
        installs: 1 for a heading about installing, .5 on a page about it, else 0.
        reference: Whether its page is a reference of an API.
        says_nothing: Whether its words alone can tell.
    """

    words: tuple[str, ...]
    stems: frozenset[str]
    context: frozenset[str]
    folder: frozenset[str]
    asks: str
    leads_elsewhere: bool
    defines: bool
    installs: float
    reference: bool
    says_nothing: bool


@lru_cache(maxsize=32_768)
def read_heading(title: str, section_path: str, file_path: str) -> Heading:
    """Reads the headings of a section."""
    heading = section_path.rpartition(_SEPARATOR)[2] or title
    asks = _QUESTION_WORD.match(heading)
    folder = file_path.rpartition("/")[0]
    leads_elsewhere = _LEADS_ELSEWHERE.match(heading) is not None
    defines = _DEFINES.match(heading) is not None
    installs = 1.0 if _INSTALLS.search(heading) else 0.5 if _INSTALLS.search(title) else 0.0
    reference = _REFERENCE_PATH.search(file_path) is not None
    return Heading(
        words=tuple(_WORD.findall(heading.lower())),
        stems=stems(heading),
        context=stems(f"{title} {section_path} {folder}"),
        folder=stems(folder.rpartition("/")[2]),
        asks=asks[1].lower() if asks else "",
        leads_elsewhere=leads_elsewhere,
        defines=defines,
        installs=installs,
        reference=reference,
        says_nothing=not (leads_elsewhere or defines or installs or reference),
    )


class HeadingScorer:
    """Compares a question with the headings of sections, and with how their texts begin.

    Args:
        question: The question.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._words = tuple(_WORD.findall(question.text.lower()))
        self._stems = stems(question.text)
        self._project = stems(question.project)
        # Every page is about the project: its name tells no section from another, unless it is all that is asked.
        self._topic = self._stems - self._project or self._stems
        asks = _QUESTION_WORD.match(question.text)
        self._asks = asks[1].lower() if asks else ""
        subject = question.text
        if question.intent == "definition":
            head = _QUALIFIER.split(question.text, maxsplit=1)[0]
            subject = head if stems(head) else question.text
        elif question.intent == "installation":
            subject = _ASKED_TO_INSTALL.sub(" ", question.text)
        named = stems(subject) - _ANY_SUBJECT
        self._subject = named - self._project or named
        # "Why X" is asked by those who know what X is.
        self._defines = question.intent == "definition" and self._asks != "why" and bool(self._subject)

    def most(self, preferences: Preferences) -> float:
        """Returns the most that `bonuses` adds."""
        intent = {"definition": preferences.definition, "installation": preferences.installation}
        return preferences.heading + preferences.heading_asked + intent.get(self._question.intent, 0.0)

    def bonuses(self, fields: Mapping[str, Any], preferences: Preferences) -> dict[str, float]:
        """Returns what the headings of a row add to the score of its unit, by reason."""
        heading = read_heading(fields.get("title", ""), fields.get("section_path", ""), fields.get("file_path", ""))
        if heading.says_nothing and self._stems and self._stems.isdisjoint(heading.stems):
            # Most rows of a pool (bench_query).
            return {}
        given: dict[str, float] = {}
        same = self._words == heading.words
        if shared := len(self._stems & heading.stems):
            given["heading"] = preferences.heading * self._closeness(heading, shared, fields)
        if same or (heading.asks and heading.asks == self._asks and heading.stems == self._stems):
            given["heading_asked"] = preferences.heading_asked
        elif heading.leads_elsewhere:
            given["leads_elsewhere"] = preferences.leads_elsewhere
        if heading.reference and self._question.intent != "exact":
            given["reference"] = preferences.reference
        if self._defines and heading.defines:
            if share := self._defined_share(heading):
                given["definition"] = preferences.definition * share
        elif self._question.intent == "installation" and heading.installs and self._is_about(heading, fields):
            given["installation"] = preferences.installation * heading.installs
        return given

    def _closeness(self, heading: Heading, shared: int, fields: Mapping[str, Any]) -> float:
        """Returns 1 where heading and question have the same words; words that the context has are half missing."""
        context = heading.context | stems(" ".join(fields.get("product_area") or ()))
        covered = len(self._topic & context) / len(self._topic)
        return shared / len(heading.stems) * covered * (0.5 + 0.5 * shared / len(self._stems))

    def _defined_share(self, heading: Heading) -> float:
        """Returns which share of the words of a defining heading is the subject; a folder of its name counts less."""
        named = heading.stems - _ANY_SUBJECT
        own = named - self._project or named
        if own:
            return len(self._subject) / len(own) if self._subject <= own else 0.0
        return 0.7 if self._subject <= heading.folder else 0.0

    def _is_about(self, heading: Heading, fields: Mapping[str, Any]) -> bool:
        return self._subject <= heading.context | self._project | stems(" ".join(fields.get("product_area") or ()))

    def opening(self, text: str, fields: Mapping[str, Any], preferences: Preferences) -> dict[str, float]:
        """Returns what the beginning of a unit's text adds to its score, by reason."""
        if len(text) < ONE_LINE_WORDS * 20 and "```" not in text and len(text.split()) < ONE_LINE_WORDS:
            return {"one_line": preferences.one_line}
        if not self._defines or _REFERENCE_PATH.search(fields.get("file_path", "")):
            return {}
        sentences = _SENTENCE_END.split(text[:_OPENING_CHARACTERS])[:_OPENING_SENTENCES]
        names = (stems(match[1]) for sentence in sentences if (match := _OPENING.match(sentence)))
        defined = any(name and (name == self._stems or name - self._project == self._subject) for name in names)
        return {"opening": preferences.opening} if defined else {}
