"""What a heading says about its section, and how well that meets a question. Pure functions over words.

Most first questions (what is, why, how do I install) are headings, or nearly: a section whose heading is the question
answers it, whatever words its text repeats. How headings say what their section is for is part of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kubeflow_corpus.query.intent import STOP_WORDS, Question
from kubeflow_corpus.query.tuning import Preferences
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary, either

# A section of fewer words without code, such as "Documentation for X.", leads to answers and holds none.
ONE_LINE_WORDS: Final = 12
# What names a thing that a page defines is named in its first sentences.
_OPENING_CHARACTERS: Final = 600
_OPENING_SENTENCES: Final = 4
_SEPARATOR: Final = " > "

_WORD: Final = re.compile(r"[^\W_]+")
# "back up" is written "backup" as well, and "set up" "setup".
_PARTICLE: Final = re.compile(r"(?<=[a-z]) (?=(?:up|down|out|in|off)\b)")
_SUFFIXES: Final = (
    *(("ies", "y"), ("ations", "ate"), ("ation", "ate"), ("ating", "ate")),
    *(("ing", ""), ("ed", ""), ("es", ""), ("s", "")),
)
_SHORTEST_STEM: Final = 3
_ASKED_TO_INSTALL: Final = re.compile(
    r"\b(?:install\w*|set(?:ting)? ?up|get(?:ting)? started(?: with)?|quick ?start(?: guide)?)\b", re.IGNORECASE
)
_ASKED_TO_BEGIN: Final = re.compile(r"\b(?:get(?:ting)? started|quick ?start)\b", re.IGNORECASE)
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
    return frozenset(_stem(word) for word in _WORD.findall(_PARTICLE.sub("", text.lower())) if word not in STOP_WORDS)


def _stem(word: str) -> str:
    for suffix, end in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return (word[: -len(suffix)] + end).rstrip("e")
    return word.rstrip("e") if len(word) > _SHORTEST_STEM else word


# What headings and questions say of any subject.
_ANY_SUBJECT: Final = stems("overview introduction introducing definition define explain describe background")
_ANY_INSTALLATION: Final = stems(
    "install installing installation setup set deploy deployment guide getting started quick start quickstart"
)
_ANY_MOTIVE: Final = stems("motivation benefits advantages use cases key")
_ANY_REPOSITORY: Final = stems("website docs documentation site io org dev")
# The first section of a page answers "what is <title>", less surely under a heading of its own.
_OWN_HEADING_SHARE: Final = 0.6
# "Install" on the page of a plugin is about the plugin.
_OTHER_PAGE_SHARE: Final = 0.5
# A page "Overview" speaks of what its folder is called, and a section "Use cases" of what its page is about.
_CONTEXT_SHARE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Heading:
    """What the headings and the path of a section say.

    Attributes:
        words: Every word of its own heading, in order; the page's title for what stands before the first heading.
        stems: Content words of it.
        context: Those of the title, the headings above and the folders.
        folder: Those of the folder of its page.
        title: Those of the title of its page.
        project: Those of the repository's name: every page of a repository is about its project.
        asks: The question word that it begins with.
        defines: Whether it says that a definition follows.
        motivates: Whether it says what a thing is good for.
        installs: 1 for a heading about installing, .5 on a page about it, else 0.
        begins: 1 for a heading about first steps, and for the first section of a page about them, .5 for another one
            of such a page, else 0.
        opens: Whether it is the first section of its page.
        introduces: Whether the first section of a page has no heading of its own, or one that says "Overview".
        reference: Whether its page is a reference of an API.
        says_nothing: Whether its words alone can tell.
    """

    words: tuple[str, ...]
    stems: frozenset[str]
    context: frozenset[str]
    folder: frozenset[str]
    title: frozenset[str]
    project: frozenset[str]
    asks: str
    defines: bool
    motivates: bool
    installs: float
    begins: float
    opens: bool
    introduces: bool
    reference: bool
    says_nothing: bool


class HeadingWords:
    """The patterns of a vocabulary that say what a heading is for.

    Args:
        vocabulary: The words of the project.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        def compiled(name: str, *, first: bool = False) -> re.Pattern[str]:
            pattern = either(vocabulary.heading_patterns(name))
            return re.compile(rf"^\W*+{pattern}" if first else pattern, re.IGNORECASE)

        self.defines = compiled("heading_defines", first=True)
        self.motivates = compiled("heading_motivates", first=True)
        self.installs = compiled("heading_installs")
        self.begins = compiled("heading_begins")


@lru_cache(maxsize=16)
def heading_words(vocabulary: Vocabulary | None = None) -> HeadingWords:
    """Returns the patterns of a vocabulary; None is the packaged one."""
    return HeadingWords(vocabulary or default_vocabulary())


@lru_cache(maxsize=32_768)
def read_heading(
    words: HeadingWords,
    title: str,
    section_path: str,
    file_path: str,
    repo: str = "",
    chunk_index: int = -1,
    view: str = "",
) -> Heading:
    """Reads the headings of a section.

    Args:
        words: What headings say.
        title: Title of its page.
        section_path: Its headings.
        file_path: Path of its page.
        repo: ``owner/name``.
        chunk_index: Place of one of its rows in the page, from 0; -1 where that is not known.
        view: Which row of the section that is.
    """
    heading = section_path.rpartition(_SEPARATOR)[2] or title
    asks = _QUESTION_WORD.match(heading)
    folder = file_path.rpartition("/")[0]
    defines = words.defines.match(heading) is not None
    motivates = words.motivates.match(heading) is not None
    installs = 1.0 if words.installs.search(heading) else 0.5 if words.installs.search(title) else 0.0
    opens = chunk_index == (int(view) - 1 if view.isdecimal() else 0)
    begins = 0.0
    if words.begins.search(f"{heading} {title} {file_path}"):
        begins = 1.0 if opens or words.begins.search(heading) else 0.5
    reference = _REFERENCE_PATH.search(file_path) is not None
    return Heading(
        words=tuple(_WORD.findall(heading.lower())),
        stems=stems(heading),
        context=stems(f"{title} {section_path} {folder}"),
        folder=stems(folder.rpartition("/")[2]),
        title=stems(title),
        project=stems(repo) - _ANY_REPOSITORY,
        asks=asks[1].lower() if asks else "",
        defines=defines,
        motivates=motivates,
        installs=installs,
        begins=begins,
        opens=opens,
        introduces=opens and (defines or not section_path),
        reference=reference,
        says_nothing=not (defines or motivates or installs or begins or opens or reference),
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
        self._headings = heading_words(question.vocabulary)
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
        self._named = named
        self._subject = named - self._project or named
        # Who wants to begin is shown first steps before the ways of installing.
        self._begins = question.intent == "installation" and _ASKED_TO_BEGIN.search(question.text) is not None
        # "Why X" is asked by those who know what X is.
        self._defines = question.intent == "definition" and self._asks != "why" and bool(self._subject)

    def most(self, preferences: Preferences) -> float:
        """Returns the most that `bonuses` adds."""
        headings = preferences.heading + preferences.heading_asked + preferences.introduction
        return headings + max(preferences.definition, preferences.installation)

    def bonuses(self, fields: Mapping[str, Any], preferences: Preferences) -> dict[str, float]:
        """Returns what the headings of a row add to the score of its unit, by reason."""
        heading = read_heading(
            self._headings,
            fields.get("title", ""),
            fields.get("section_path", ""),
            fields.get("file_path", ""),
            fields.get("repo", ""),
            fields.get("chunk_index", -1),
            fields.get("view", ""),
        )
        if heading.says_nothing and self._stems and self._stems.isdisjoint(heading.stems):
            # Most rows of a pool (bench_query).
            return {}
        given: dict[str, float] = {}
        same = self._words == heading.words
        if shared := len(self._stems & heading.stems):
            given["heading"] = preferences.heading * self._closeness(heading, shared, fields)
        if same or (heading.asks and heading.asks == self._asks and heading.stems == self._stems):
            given["heading_asked"] = preferences.heading_asked
        if heading.reference and self._question.intent != "exact":
            given["reference"] = preferences.reference
        for reason, most, share in self._meanings(heading, fields, preferences):
            if share:
                given[reason] = most * share
        return given

    def _meanings(
        self, heading: Heading, fields: Mapping[str, Any], preferences: Preferences
    ) -> Iterator[tuple[str, float, float]]:
        """Yields what a heading says to a question of this intent: the reason, the most that it adds, and the share."""
        if self._defines and heading.defines:
            yield "definition", preferences.definition, self._defined_share(heading)
        elif self._asks == "why" and heading.motivates:
            yield "definition", preferences.definition, self._motivated_share(heading, fields)
        if self._question.intent == "installation":
            share = heading.begins if self._begins else heading.installs
            if share and self._is_about(self._subject, heading, fields):
                # First steps are called after what is made in them.
                alone = self._names_nothing_else(heading)
                page = 1.0 if alone or self._begins else _OTHER_PAGE_SHARE
                yield "installation", preferences.installation, share * page
                if alone and heading.opens and self._words != heading.words:
                    yield "introduction", preferences.introduction, self._opening_share(heading)
        elif heading.opens and self._asks != "why" and self._words != heading.words:
            yield "introduction", preferences.introduction, self._introduced_share(heading)

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
        return _CONTEXT_SHARE if self._subject <= heading.folder else 0.0

    def _motivated_share(self, heading: Heading, fields: Mapping[str, Any]) -> float:
        """Returns 1 for a heading that says of the subject what it is good for; less where only its page names it."""
        own, asked = self._distinguish(heading.stems - _ANY_MOTIVE, heading), self._distinguish(self._named, heading)
        if own:
            return 1.0 if own <= asked else 0.0
        return _CONTEXT_SHARE if self._is_about(asked, heading, fields) else 0.0

    def _introduced_share(self, heading: Heading) -> float:
        """Returns how well the title of a page is what the question is about: 1 where both have the same words."""
        own = self._distinguish(heading.title - _ANY_SUBJECT or heading.folder, heading)
        asked = self._distinguish(self._named, heading)
        if not own or not asked:
            return 0.0
        shared = len(own & asked)
        return shared / len(own) * shared / len(asked) * self._opening_share(heading)

    @staticmethod
    def _opening_share(heading: Heading) -> float:
        return 1.0 if heading.introduces else _OWN_HEADING_SHARE

    def _names_nothing_else(self, heading: Heading) -> bool:
        """Returns whether a page about installing names no other thing than the one that is asked for."""
        return heading.title - _ANY_SUBJECT - _ANY_INSTALLATION - heading.project - self._project <= self._subject

    def _distinguish(self, words: frozenset[str], heading: Heading) -> frozenset[str]:
        """Returns words without the name of the project, which every page has; all where nothing else is left."""
        return words - self._project - heading.project or words

    def _is_about(self, subject: frozenset[str], heading: Heading, fields: Mapping[str, Any]) -> bool:
        known = heading.context | heading.project | self._project
        return subject <= known | stems(" ".join(fields.get("product_area") or ()))

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
