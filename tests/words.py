"""Turns of phrase that read as translated, and what to write instead; `make lint` runs this over code and documents.

A line that needs such a turn ends with a comment that says why: ``# words: reason`` or ``<!-- words: reason -->``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = (
    "components",
    "pipelines",
    "tests",
    "docs",
    "Makefile",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
)
# The sample corpus and recorded answers are data; this file spells out the turns.
LEFT_OUT: Final = ("tests/corpus/", "tests/words.py")
KINDS: Final = (".py", ".md", ".j2", ".toml", "Makefile")
ESCAPE: Final = re.compile(r"(?:#|<!--) words: \S")

# A turn, as it reads with blanks for underscores, and a better word for it.
TURNS: Final[dict[str, str]] = {
    r"(?<!there )\b(?:is|are|was|were|be) no (?!longer|more\b|less\b|fewer)": "is not a ...",
    r"\bno valid\b": "not valid, invalid",
    r"\bhand(?:s|ed|ing)?(?: (?:it|them|this|that))? on\b": "pass on",
    r"\b(?:is|are|was|were) told\b": "is notified, is sent",
    r"\btells? of\b": "reports, notifies",
    r"\bbrought\b(?! up)": "fetched, carried",
    r"\b(?:is|are|was|were) held\b": "is stored, is kept",
    r"\bso many\b": "this many, a number of",
    r"\bof which one\b": "split the sentence",
    r"\bstands? in(?! for)\b": "is in",
    r"\b(?:where|for which) (?:none|nobody|no \w+) stands\b": "if there is none",
    r"\ba (?:line|row|piece|file|page|document|table) (?:each|a)\b": "one line per ...",
    r"\bbec(?:omes?|ame) of\b": "what happened to",
    r"\bbr(?:oke|oken|eaks?|eaking) off\b": "was interrupted, ended early",
    r"\bwhere there (?:is|are) (?:none|no)\b": "if there is no ...",
    r"\bnone of its (?:business|own)\b": "say what it does not do",
    r"\bwithout a word\b": "silently, without a message",
    r"\banew\b": "again",
    r"\bone look\b(?!-)": "say what is checked",
    r"\bnobody knows\b": "it is not known",
    r'"""says whether\b': "returns whether",
    r"\bwhat of an?\b": "which part of",
    r"\bas nearly all are\b": "which is the usual case",
}
_TURN: Final = re.compile("|".join(f"(?P<t{number}>{turn})" for number, turn in enumerate(TURNS)), re.IGNORECASE)
_WORDS: Final = tuple(TURNS.values())


def find_turns(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields line number, turn and better word of each turn in a text."""
    for number, line in enumerate(text.split("\n"), 1):
        if ESCAPE.search(line):
            continue
        for found in _TURN.finditer(line.replace("_", " ")):
            yield number, found.group(), _WORDS[int(str(found.lastgroup)[1:])]


def listed_files() -> list[Path]:
    """Returns the files to read: those that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    chosen = (name for name in names if name.endswith(KINDS) and not name.startswith(LEFT_OUT))
    return [path for path in (ROOT / name for name in chosen) if path.is_file()]


def main() -> int:
    """Prints each turn with file and line; 1 if there is any."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {turn.strip()!r}; better: {better}"
        for path in listed_files()
        for number, turn, better in find_turns(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) if found else "words: nothing reads as translated")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
