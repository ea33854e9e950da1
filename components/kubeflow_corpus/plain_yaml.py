"""Whether a YAML text of somebody else may be given to a loader: asked of the parser's events, which cost no depth.

A loader recurses with the nesting of a text (in C: a hundred thousand brackets end the process), and copies every key
that a merge brings in (twenty lines of ``<<: [*a, *a]`` make a million).
"""

from __future__ import annotations

from typing import Any, Final

# Front matter and site settings reach 6 levels and hold no alias at all.
MAX_DEPTH: Final = 40
MAX_ALIASES: Final = 8


def is_plain(text: str) -> bool:
    """Returns whether a text is YAML without deep nesting and without aliases by the dozen.

    Args:
        text: One YAML document.
    """
    from ruamel.yaml.cyaml import CBaseLoader
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import (
        AliasEvent,
        MappingEndEvent,
        MappingStartEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    depth = aliases = 0
    try:
        parser = CBaseLoader(text)
        while parser.check_event():
            kind = type(parser.get_event())
            if kind is MappingStartEvent or kind is SequenceStartEvent:
                depth += 1
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                depth -= 1
            elif kind is AliasEvent:
                aliases += 1
            if depth > MAX_DEPTH or aliases > MAX_ALIASES:
                return False
    except (YAMLError, ValueError, RecursionError):
        return False
    return True


def load_plain(text: str) -> Any:
    """Reads a YAML document that somebody else wrote.

    Raises:
        ValueError: It is not YAML, or not plain (`is_plain`).
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if not is_plain(text):
        raise ValueError("the text is not plain YAML")
    try:
        return YAML(typ="safe").load(text)
    except YAMLError as error:
        raise ValueError("the text is not YAML") from error
