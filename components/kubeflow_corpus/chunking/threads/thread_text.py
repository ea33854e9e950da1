"""What people wrote in a thread, without what templates, bots and mail programs added.

A thread is read as numbered lines (its *rendered form*, see `Thread.lines`): the title, then for the description and
for every comment one line that says who speaks and the lines of what is said. Rules take lines out, each with a name
that is counted (`thread_rules`); what stays keeps its line number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubeflow_corpus.chunking.threads.rules import (
    BOLD_LINE,
    BOT_TEXTS,
    COLON_LINE,
    ERROR_LINE,
    FENCE,
    HEADING,
    IMAGE,
    LOG_LINE,
    MAINTAINERS,
    NO_SUBSTANCE,
    NO_SUBSTANCE_LENGTH,
    REST_OF_MAIL,
    TAG,
    TASK,
    ThreadRules,
    thread_rules,
)
from kubeflow_corpus.symptoms import symptom_key
from kubeflow_corpus.vocabulary import Vocabulary

# Longer blocks are cut to what they say went wrong.
LOG_LINES: Final = 14
LOG_LENGTH: Final = 1600
# Of a log: this many different errors, the first and the last of them, with the lines around each.
ERRORS_FIRST: Final = 4
ERRORS_LAST: Final = 4
LINES_BEFORE: Final = 1
LINES_AFTER: Final = 2
# Of a log without errors, and of code.
HEAD_LINES: Final = 4
TAIL_LINES: Final = 6
CODE_LINES: Final = 30
LINE_LENGTH: Final = 500
# Of one text in all: what is longer is cut in the middle.
POST_LENGTH: Final = 24_000

_CUT: Final = "[... {lines:,} lines cut ...]"
_CUT_INLINE: Final = " [... {count:,} characters cut ...] "
_WORDS: Final = re.compile(r"\w+")
# Quoted lines are recognised by this many of their first characters.
_QUOTE_LENGTH: Final = 60
_CONTROL: Final = {code: None for code in range(32) if chr(code) not in "\t\n"} | {0x7F: None}


@dataclass(frozen=True, slots=True)
class Line:
    """A line that stays.

    Attributes:
        number: Where it is in the rendered thread, from 1.
        text: What it says.
        code: Whether it is in a code block or a log.
    """

    number: int
    text: str
    code: bool = False


@dataclass(slots=True)
class Post:
    """The description or one comment.

    Attributes:
        id: GitHub's number of the comment; 0 is the description.
        author: Account, or empty if it is gone.
        association: What GitHub says of the author (``MEMBER``, ``NONE``, ...).
        bot: Whether a program wrote it.
        created_at: When it was written.
        reactions: Reactions by name.
        first_line: The line that says who speaks.
        last_line: The last line of what is said.
        lines: What stays, once `clean` has run.
        removed: Rules and the lines that they took, once `clean` has run.
        reason: Why nothing of the post is of use; empty where something is.
    """

    id: int
    author: str
    association: str
    bot: bool
    created_at: str
    reactions: dict[str, int]
    first_line: int = 0
    last_line: int = 0
    lines: list[Line] = field(default_factory=list)
    removed: list[tuple[str, int]] = field(default_factory=list)
    reason: str = ""

    @property
    def text(self) -> str:
        """What stays, as one text."""
        return "\n".join(line.text for line in self.lines)

    @property
    def prose(self) -> str:
        """What stays outside of code and logs."""
        return "\n".join(line.text for line in self.lines if not line.code)

    @property
    def maintainer(self) -> bool:
        """Whether somebody who maintains the repository speaks."""
        return self.association in MAINTAINERS


@dataclass(slots=True)
class Thread:
    """One issue with its texts.

    Attributes:
        number: Its number.
        title: Its title.
        state: ``open`` or ``closed``.
        state_reason: What GitHub says of the state.
        labels: Its labels.
        created_at: When it was opened.
        closed_at: When it was closed, or empty.
        closed_by: Numbers of the merged pull requests that close it.
        problem: The description.
        comments: The comments, oldest first.
        lines: The rendered form.
        rules: The rules by which it is read.
    """

    number: int
    title: str
    state: str
    state_reason: str
    labels: tuple[str, ...]
    created_at: str
    closed_at: str
    closed_by: tuple[int, ...]
    problem: Post
    comments: list[Post]
    lines: list[str]
    rules: ThreadRules

    @property
    def posts(self) -> Iterator[Post]:
        """The description and the comments."""
        yield self.problem
        yield from self.comments


def read_thread(text: str, vocabulary: Vocabulary) -> Thread:
    """Reads the JSON of a thread and renders it.

    Args:
        text: JSON.
        vocabulary: The words of the project.

    Raises:
        ValueError: It is not what `sources.threads.thread_document` writes.
    """
    try:
        data = json.loads(text)
        number, title = int(data["number"]), _normalise(data["title"]).replace("\n", " ").strip()
        lines = [title or f"Issue {number}"]
        problem = _render(data, lines)
        comments = [_render(comment, lines) for comment in data["comments"]]
        return Thread(
            number=number,
            title=lines[0],
            state="closed" if data["state"] == "closed" else "open",
            state_reason=str(data["state_reason"]),
            labels=tuple(str(label) for label in data["labels"]),
            created_at=str(data["created_at"]),
            closed_at=str(data["closed_at"]),
            closed_by=tuple(int(pull_request) for pull_request in data["closed_by"]),
            problem=problem,
            comments=comments,
            lines=lines,
            rules=thread_rules(vocabulary),
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the JSON of a thread: {type(error).__name__} {error}") from error


def _render(data: dict[str, Any], lines: list[str]) -> Post:
    """Appends a text to the rendered form."""
    identifier = int(data.get("id", 0))
    post = Post(
        id=identifier,
        author=str(data["author"]),
        association=str(data["author_association"]),
        bot=bool(data["bot"]),
        created_at=str(data["created_at"]),
        reactions={str(name): int(count) for name, count in data["reactions"].items()},
        first_line=len(lines) + 1,
    )
    what = f"Comment {identifier}" if identifier else "Description"
    lines.append(f"{what} by {post.author or 'somebody'} ({post.association}) on {post.created_at[:10]}")
    body = _normalise(data["body"])
    lines.extend(body.split("\n") if body.strip() else [])
    post.last_line = len(lines)
    return post


def _normalise(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8").translate(_CONTROL)


def clean(thread: Thread) -> Counter[str]:
    """Fills `lines`, `removed` and `reason` of every post of a thread.

    Returns:
        Lines removed by each rule.
    """
    said: set[str] = set()
    counts: Counter[str] = Counter()
    for post in thread.posts:
        _clean_post(post, thread, said)
        counts.update(rule for rule, _ in post.removed)
        said |= {_quotable(line.text) for line in post.lines}
    return counts


def _clean_post(post: Post, thread: Thread, said: set[str]) -> None:
    body = [Line(number, thread.lines[number - 1]) for number in range(post.first_line + 1, post.last_line + 1)]
    post.reason = _program(post, body, thread.rules) if post.id else ""
    if not post.reason:
        kept = _Cleaner(post, said, thread.rules).clean(body)
        text = "\n".join(line.text for line in kept).strip()
        if post.id and len(text) <= NO_SUBSTANCE_LENGTH and (not text or NO_SUBSTANCE.fullmatch(text)):
            post.reason = "no_substance" if text else "nothing_left"
            kept = []
        post.lines = kept
    if post.reason:
        taken = {number for _, number in post.removed}
        rest = (line.number for line in body if line.number not in taken)
        post.removed += [(post.reason, number) for number in (post.first_line, *rest)]


def _program(post: Post, body: Sequence[Line], rules: ThreadRules) -> str:
    if post.bot or rules.is_bot(post.author.casefold()):
        return "bot"
    start = "\n".join(line.text for line in body[:6])[:1000]
    return "bot" if BOT_TEXTS.search(start) else ""


class _Cleaner:
    """Takes out of one post what its author did not write, or wrote before."""

    def __init__(self, post: Post, said: set[str], rules: ThreadRules) -> None:
        self._post, self._said, self._rules = post, said, rules

    def clean(self, lines: list[Line]) -> list[Line]:
        lines = self._comments(lines)
        lines = self._lines(lines)
        lines = self._headings(lines)
        lines = self._logs(lines)
        lines = self._length(lines)
        return _trimmed(lines)

    def _drop(self, rule: str, line: Line) -> None:
        self._post.removed.append((rule, line.number))

    def _comments(self, lines: list[Line]) -> list[Line]:
        """Takes out HTML comments, outside of code, and marks code."""
        kept: list[Line] = []
        fence, inside = "", False
        for line in lines:
            if not inside and (match := FENCE.fullmatch(line.text)):
                mark = match[1]
                if not fence:
                    fence = mark
                elif mark.startswith(fence) and not match[2].strip():
                    fence = ""
                kept.append(Line(line.number, line.text, code=True))
                continue
            if fence:
                kept.append(Line(line.number, line.text, code=True))
                continue
            text, inside = _without_comment(line.text, inside)
            if text.strip() or not line.text.strip():
                kept.append(Line(line.number, text))
            else:
                self._drop("html_comment", line)
        return kept

    def _lines(self, lines: list[Line]) -> list[Line]:
        kept: list[Line] = []
        mail = False
        for line in lines:
            if line.code:
                kept.append(line)
                continue
            stripped = line.text.strip()
            if mail or (self._post.id and REST_OF_MAIL.search(stripped[:300])):
                mail = True
                self._drop("mail", line)
                continue
            if stripped.startswith(">"):
                text = stripped.lstrip("> ").strip()
                if not text or (self._post.id and _quotable(text) in self._said):
                    self._drop("quoted_reply", line)
                    continue
                line, stripped = Line(line.number, text), text
            rule = _rule_of(stripped, self._rules) if stripped else ""
            if rule:
                self._drop(rule, line)
                continue
            kept.append(Line(line.number, TASK.sub(r"\1 ", TAG.sub("", IMAGE.sub("", line.text)))))
        return kept

    def _headings(self, lines: list[Line]) -> list[Line]:
        """Takes out headings and questions of a template that nobody answered, from the end upwards."""
        answered = [False] * (_COLON + 1)
        kept: list[Line] = []
        for line in reversed(lines):
            level = 0 if line.code else _level(line.text, self._rules)
            if not level:
                if line.text.strip():
                    answered = [True] * len(answered)
                kept.append(line)
                continue
            if answered[level]:
                kept.append(line)
                # An answered question is content for the headings above it.
                answered[:level] = [True] * level
            else:
                self._drop("empty_heading", line)
            answered[level:] = [False] * (len(answered) - level)
        return kept[::-1]

    def _logs(self, lines: list[Line]) -> list[Line]:
        kept: list[Line] = []
        for code, block in _blocks(lines):
            if not code or (len(block) <= LOG_LINES and sum(len(line.text) for line in block) <= LOG_LENGTH):
                kept += [Line(line.number, _shortened(line.text) if code else line.text, line.code) for line in block]
                continue
            kept += self._cut(block)
        return kept

    def _cut(self, block: list[Line]) -> list[Line]:
        wanted = _of_interest(block)
        kept: list[Line] = []
        gap: list[Line] = []
        for index, line in enumerate(block):
            if index not in wanted:
                gap.append(line)
                self._drop("log_cut", line)
                continue
            if gap:
                kept.append(Line(gap[-1].number, _CUT.format(lines=len(gap)), code=True))
                gap = []
            kept.append(Line(line.number, _shortened(line.text), code=True))
        if gap:
            kept.append(Line(gap[-1].number, _CUT.format(lines=len(gap)), code=True))
        return kept

    def _length(self, lines: list[Line]) -> list[Line]:
        if sum(len(line.text) + 1 for line in lines) <= POST_LENGTH:
            return [part for line in lines for part in _split(line)]
        parts = [part for line in lines for part in _split(line)]
        head = _count_within(parts, POST_LENGTH * 3 // 4)
        tail = _count_within(parts[head:][::-1], POST_LENGTH // 4)
        cut = parts[head : len(parts) - tail]
        if not cut:
            return parts
        held = {line.number for line in (*parts[:head], *parts[len(parts) - tail :])}
        for number in dict.fromkeys(line.number for line in cut if line.number not in held):
            self._post.removed.append(("too_long", number))
        mark = Line(cut[0].number, _CUT.format(lines=len(cut)), code=cut[0].code)
        return [*parts[:head], mark, *parts[len(parts) - tail :]]


def _rule_of(stripped: str, rules: ThreadRules) -> str:
    start = stripped[:600]
    for rule, pattern in rules.lines:
        if pattern.fullmatch(start):
            return rule
    return ""


def _without_comment(text: str, inside: bool) -> tuple[str, bool]:
    kept: list[str] = []
    position = 0
    while position < len(text):
        if inside:
            end = text.find("-->", position)
            if end < 0:
                return "".join(kept), True
            position, inside = end + 3, False
        else:
            start = text.find("<!--", position)
            if start < 0:
                kept.append(text[position:])
                break
            kept.append(text[position:start])
            position, inside = start + 4, True
    return "".join(kept), inside


_BOLD: Final = 7
_COLON: Final = 8


def _level(text: str, rules: ThreadRules) -> int:
    """Returns how high a heading stands: 1 to 6 as in Markdown, then bold lines, then questions; 0 is text."""
    stripped = text.strip()[:300]
    if match := HEADING.match(stripped):
        return len(match[1])
    if BOLD_LINE.fullmatch(stripped):
        return _BOLD
    return _COLON if rules.question.fullmatch(stripped) or COLON_LINE.fullmatch(stripped) else 0


def _blocks(lines: list[Line]) -> Iterator[tuple[bool, list[Line]]]:
    """Yields runs of lines: code blocks, logs that nobody fenced, and text."""
    run: list[Line] = []
    kind = False
    for line in lines:
        code = line.code or LOG_LINE.match(line.text) is not None
        # A blank line inside a log belongs to it.
        if run and code != kind and not (kind and not line.code and not line.text.strip()):
            yield kind, run
            run = []
        if not run:
            kind = code
        run.append(line)
    if run:
        yield kind, run


def _of_interest(block: list[Line]) -> set[int]:
    """Returns which lines of a log or of code stay."""
    errors: dict[str, int] = {}
    for index, line in enumerate(block):
        if ERROR_LINE.search(line.text[: LINE_LENGTH * 4]):
            errors.setdefault(symptom_key(line.text[:LINE_LENGTH]), index)
    last = len(block) - 1
    if not errors:
        logged = sum(LOG_LINE.match(line.text) is not None for line in block)
        if logged * 3 < len(block):
            return set(range(min(CODE_LINES, last + 1)))
        return {*range(HEAD_LINES), *range(max(0, last - TAIL_LINES), last + 1)}
    places = list(errors.values())
    chosen = places if len(places) <= ERRORS_FIRST + ERRORS_LAST else places[:ERRORS_FIRST] + places[-ERRORS_LAST:]
    around = {index for place in chosen for index in range(place - LINES_BEFORE, place + LINES_AFTER + 1)}
    return {index for index in around | {0, last} if 0 <= index <= last}


def _shortened(text: str) -> str:
    """Returns a line of a log: its beginning, and what it says went wrong where that comes later."""
    if len(text) <= LINE_LENGTH:
        return text
    head = LINE_LENGTH // 2
    match = ERROR_LINE.search(text, head, min(len(text), 1 << 16))
    start = max(head, match.start() - 40) if match else head
    end = min(len(text), start + LINE_LENGTH // 2)
    before = _CUT_INLINE.format(count=start - head) if start > head else ""
    after = _CUT_INLINE.format(count=len(text) - end) if end < len(text) else ""
    return f"{text[:head]}{before}{text[start:end]}{after}".rstrip()


def _split(line: Line) -> Iterator[Line]:
    """Yields a line in pieces that a row can hold, cut between words where there are any."""
    text = line.text
    start = 0
    while len(text) - start > 2 * LINE_LENGTH:
        end = text.rfind(" ", start + LINE_LENGTH, start + 2 * LINE_LENGTH)
        end = end if end > 0 else start + 2 * LINE_LENGTH
        yield Line(line.number, text[start:end], line.code)
        start = end
    yield Line(line.number, text[start:], line.code)


def _count_within(lines: Sequence[Line], limit: int) -> int:
    """Returns how many of the first lines have at most a number of characters."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line.text) + 1
        if used > limit:
            return count
    return len(lines)


def _trimmed(lines: list[Line]) -> list[Line]:
    """Returns lines without blank ones at both ends and in a row."""
    kept: list[Line] = []
    for line in lines:
        if line.text.strip() or (kept and kept[-1].text.strip()):
            kept.append(Line(line.number, line.text.rstrip(), line.code))
    while kept and not kept[-1].text:
        kept.pop()
    return kept


def _quotable(text: str) -> str:
    return "".join(_WORDS.findall(text))[:_QUOTE_LENGTH].casefold()


def error_lines(lines: Sequence[Line]) -> list[Line]:
    """Returns the lines that say what went wrong, each different one once."""
    found: dict[str, Line] = {}
    for line in lines:
        if ERROR_LINE.search(line.text[:LINE_LENGTH]):
            found.setdefault(symptom_key(line.text), line)
    return list(found.values())
