"""Letters that some comparison takes for an ASCII letter: by case, by case folding or by compatibility."""

from __future__ import annotations

import re
from string import ascii_lowercase
from unicodedata import normalize

from hypothesis import strategies as st


def _lookalikes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {letter: [letter, letter.upper()] for letter in ascii_lowercase}
    for char in map(chr, range(128, 0x20000)):
        plain = {
            form[:1] for form in (char.lower(), char.upper().lower(), char.casefold(), normalize("NFKC", char).lower())
        }
        for letter in plain & found.keys():
            found[letter].append(char)
    return found


LOOKALIKES = _lookalikes()
# What `re.IGNORECASE` takes for a letter from a to z, and is none.
FOLDED = [char for chars in LOOKALIKES.values() for char in chars if not char.isascii() and re.match("(?i)[a-z]", char)]


def in_other_letters(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Words of which each letter may be another one that is the same to a pattern that ignores the case."""
    return words.flatmap(lambda word: st.tuples(*map(_letters, word)).map("".join))


def _letters(char: str) -> st.SearchStrategy[str]:
    others = LOOKALIKES.get(char.lower())
    if others is None:
        return st.just(char)
    return st.sampled_from([char, *(other for other in others if other in FOLDED)]) | st.sampled_from(others)
