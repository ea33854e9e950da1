"""A thread that a person writes, as the chunker of threads reads it: Markdown, or JSON checked by a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.mcp_server.arguments import MAX_THREAD_NUMBER, STATES, read_moment, wrong
from kubeflow_corpus.store.schema import CONTROLS

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

MAX_COMMENTS: Final = 500
MAX_LABELS: Final = 50
_SHOWN_CHARACTERS: Final = 120
_RESOLUTION: Final = re.compile(
    r"^#{1,6}[ \t]+(?:resolution|solution|fix|answer)[ \t]*+#*+[ \t]*+$", re.IGNORECASE | re.M
)

# Names are shown in headings of the evidence: one short line each. What a schema does not name is left out unread.
_NAME: Final = {"type": "string", "maxLength": 100, "pattern": r"^[^\x00-\x1f\x7f\[\]]*$"}
_POST: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "body": {"type": "string"},
        "author": _NAME,
        "author_association": {"type": "string", "maxLength": 40, "pattern": "^[A-Za-z_]*$"},
        "created_at": {"type": "string", "maxLength": 40},
        "resolution": {"type": "boolean"},
    },
}
THREAD_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **_POST["properties"],
        "number": {"type": "integer", "minimum": 1, "maximum": MAX_THREAD_NUMBER},
        "state": {"enum": list(STATES)},
        "labels": {"type": "array", "items": {**_NAME, "minLength": 1}, "maxItems": MAX_LABELS},
        "comments": {"type": "array", "items": _POST, "maxItems": MAX_COMMENTS},
    },
    "required": ["body"],
}
_REMEDY: Final = 'Write {"body": "...", "comments": [{"body": "...", "resolution": true}]}'


def read_thread(content: str, title: str, metadata: Mapping[str, Any], moment: str) -> str:
    """Returns the JSON of a thread as the chunker reads it.

    Args:
        content: Markdown, where what stands below a heading *Resolution* resolves it; or JSON by `THREAD_SCHEMA`.
        title: Title of the thread.
        metadata: Of the document; its ``number`` and ``state`` are preferred to those of the content.
        moment: When it was written, for posts without a time.

    Raises:
        InvalidArgument: The content is not a thread.
    """
    data = _thread_json(content) if content.lstrip().startswith("{") else _thread_markdown(content)
    comments = data.get("comments", [])
    resolved = any(comment.get("resolution") for comment in comments)
    state = metadata.get("state") or data.get("state") or ("closed" if resolved else "open")
    thread = {
        **_post(data, 0, moment),
        # JSON knows no whole numbers: 7.0 is one too.
        "number": int(metadata.get("number") or data.get("number") or 0),
        "title": title,
        "state": state,
        "state_reason": "completed" if state == "closed" else "",
        "labels": data.get("labels", []),
        "closed_at": moment if state == "closed" else "",
        "closed_by": [],
        "comments": [_post(comment, number, moment) for number, comment in enumerate(comments, 1)],
    }
    return json.dumps(thread, ensure_ascii=False)


def _thread_json(content: str) -> dict[str, Any]:
    try:
        data = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise wrong("content", "it begins like JSON and is not valid JSON", "Write JSON, or Markdown") from error
    found = next(iter(sorted(_validator().iter_errors(data), key=lambda item: str(item.json_path))), None)
    if found is not None:
        # The message repeats the value, which may be the whole thread.
        rule = f"{found.validator} {found.validator_value!r}"[:_SHOWN_CHARACTERS]
        raise wrong("content", f"the thread's {found.json_path[:_SHOWN_CHARACTERS]} breaks the rule {rule}", _REMEDY)
    if any(CONTROLS.search(text) for text in _texts(data)):
        raise wrong("content", "the thread holds control characters or halves of characters", "Remove them")
    return dict(data)


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(THREAD_SCHEMA)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _texts(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields every text of a thread that is stored."""
    yield from (value for value in data.values() if isinstance(value, str))
    yield from data.get("labels", ())
    for comment in data.get("comments", ()):
        yield from (value for value in comment.values() if isinstance(value, str))


def _thread_markdown(content: str) -> dict[str, Any]:
    heading = _RESOLUTION.search(content)
    if heading is None:
        return {"body": content}
    answer = content[heading.end() :].strip()
    return {"body": content[: heading.start()].rstrip(), "comments": [{"body": answer, "resolution": True}]}


def _post(data: Mapping[str, Any], number: int, moment: str) -> dict[str, Any]:
    resolution = data.get("resolution", False)
    created = data.get("created_at")
    return {
        "id": number,
        "author": data.get("author", ""),
        # Who writes the resolution of a thread down says that it is one, as a maintainer and readers would.
        "author_association": "MEMBER" if resolution else data.get("author_association") or "NONE",
        "bot": False,
        "created_at": read_moment("content", created) if created else moment,
        "reactions": {"+1": 8} if resolution else {},
        "body": data.get("body", ""),
    }
