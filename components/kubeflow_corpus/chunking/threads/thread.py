"""Cuts an issue thread: one unit, whose main row holds title, problem and resolution together.

The main row is what answers; it may be twice as long as what the model reads, and its embedding text is then a digest
(first lines, error lines, first lines of the resolution), counted as ``digested``. BM25 reads all of it. What does not
fit there goes on in further rows of the same unit (views ``problem:2``, ``resolution:2``), and the other comments that
say something have rows of their own (``comment:<id>``), each within what the model reads and headed by the title.

Lines are those of the rendered thread (`thread_text`). Every line is in the span of exactly one row or is removed by a
named rule, with one exception: the resolving comment is in the main row and its lines are noted as ``in_main_row``.
A span may hold removed lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.chunking.compose import Budget, compose_row, fit_bytes, search_text, skip_document
from kubeflow_corpus.chunking.threads.resolution import Resolution, find_resolution, score
from kubeflow_corpus.chunking.threads.rules import ThreadRules
from kubeflow_corpus.chunking.threads.thread_text import Line, Post, Thread, clean, error_lines, read_thread
from kubeflow_corpus.collections import ISSUES, common_limit
from kubeflow_corpus.records import Chunk, Chunked, Document, FieldValue, Removed, seal
from kubeflow_corpus.symptoms import stable_text
from kubeflow_corpus.terms import release_in_text, version_precisions
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

# The main row has this many times the tokens that the model reads; of these the resolution may take two fifths.
MAIN_ROW: Final = 2
RESOLUTION_SHARE: Final = 0.4
# Rows for other comments; of a longer thread those that say most stay.
MAX_COMMENT_ROWS: Final = 24
# Comments with fewer words than this add nothing to a thread, unless they show code or an error.
MIN_COMMENT_WORDS: Final = 12
# What is counted as a token has at most this many bytes, so that no row breaks the limit of its field.
BYTES_A_TOKEN: Final = 32
MAX_TITLE_BYTES: Final = common_limit("title")
MAX_LABELS: Final = 64
MAX_LABEL_BYTES: Final = ISSUES.limit("labels")
MAX_VERSIONS: Final = 64

PROBLEM: Final = "Problem"
COMMENTS: Final = "Comments"
_ADDRESS_OF_THREAD: Final = re.compile(r"https?://[\x21-\x7e]{1,900}")
_STATE_REASON: Final = re.compile(r"[a-z_]{0,40}")
_NO_DESCRIPTION: Final = "(no description)"

_VERSION: Final = release_in_text("/:-", r"[\w.]*[\w/:]")
_NAMES_BEFORE: Final = 60
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


def chunk(document: Document, budget: Budget, vocabulary: Vocabulary | None = None) -> Chunked:
    """Cuts one thread.

    Args:
        document: A thread as `sources.threads.thread_document` makes it.
        budget: How many tokens the embedding model reads.
        vocabulary: The words of the project; None is the packaged one.

    Returns:
        Its rows, or a skip where the document is not a thread.
    """
    try:
        thread = read_thread(document.text, vocabulary or default_vocabulary())
    except ValueError as error:
        return skip_document(document, "unreadable thread", str(error))
    counts = clean(thread)
    builder = _Builder(document, budget, thread, find_resolution(thread))
    chunks = tuple(seal(builder.rows()))
    return Chunked(chunks, tuple(_spans(builder.removed())), counts={**counts, **builder.counts})


def named_versions(thread: Thread) -> tuple[str, ...]:
    """Returns the versions that the author names in title and description, at every precision.

    Versions of other software (`ThreadRules.foreign`) and those in code and logs are left out.
    """
    found: dict[str, None] = {}
    for text in (thread.title, *(line.text for line in thread.problem.lines if not line.code)):
        for match in _VERSION.finditer(text[:2000]):
            before = text[max(0, match.start() - _NAMES_BEFORE) : match.start()]
            if _ADDRESS.fullmatch(match[1]) or _belongs_to_other(before, thread.rules):
                continue
            found.update(dict.fromkeys(version_precisions(match[1])))
    return tuple(found)[:MAX_VERSIONS]


def _belongs_to_other(before: str, rules: ThreadRules) -> bool:
    """Returns whether the last name before a version is that of other software."""
    clause = re.split(r"[,;()]|\band\b|\bwith\b|\bon\b", before)[-1]
    last_foreign = max((match.end() for match in rules.foreign.finditer(clause)), default=-1)
    last_own = max((match.end() for match in rules.own.finditer(clause)), default=-1)
    return last_foreign > last_own


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some lines of one post: which part of it, from 1, and whether it is the last one."""

    post: Post
    lines: tuple[Line, ...]
    part: int = 1
    last: bool = True

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines).strip("\n")


class _Builder:
    """Makes the rows of one thread."""

    def __init__(self, document: Document, budget: Budget, thread: Thread, resolution: Resolution) -> None:
        self._document, self._budget = document, budget
        self._thread, self._resolution = thread, resolution
        self._title = fit_bytes(thread.title, MAX_TITLE_BYTES)
        self._header = budget.header(self._title, "")
        self._room = max(budget.room(self._header), 1)
        given = document.metadata.get("version", ())
        known = _ADDRESS_OF_THREAD.fullmatch(document.url) is not None
        self._address = document.url if known else f"https://github.com/{document.repo}/issues/{thread.number}"
        self._versions = tuple(dict.fromkeys((*given, *named_versions(thread))))
        self._fields = self._own_fields()
        self._unused: list[tuple[str, int]] = []
        self.counts: Counter[str] = Counter()

    def rows(self) -> Iterator[Chunk]:
        """Yields the rows: the main one, what is left of problem and resolution, the other comments."""
        answer = self._resolution.comment
        problem, more_problem = self._main_part(self._thread.problem, answer)
        solution, more_solution = self._main_part(answer, self._thread.problem) if answer else (None, [])
        if answer is not None and solution is not None:
            answered = range(
                answer.first_line, (more_solution[0].lines[0].number if more_solution else answer.last_line + 1)
            )
            taken = {number for _, number in answer.removed}
            self._unused += [("in_main_row", number) for number in answered if number not in taken]
        yield self._main_row(problem, solution, more_problem)
        yield from self._more("problem", PROBLEM, more_problem)
        yield from self._more("resolution", "Resolution", more_solution)
        yield from self._comment_rows()

    def removed(self) -> list[tuple[str, int]]:
        """Returns rule and number of every line that no row carries. Right once all rows were made."""
        posts = (pair for post in self._thread.posts for pair in post.removed)
        return [*posts, *self._unused]

    # The main row.

    def _main_part(self, post: Post, other: Post | None) -> tuple[_Piece, list[_Piece]]:
        """Splits a post into the part for the main row, and the rest in pieces, one per row."""
        total = self._budget.tokens * MAIN_ROW
        mine, theirs = self._tokens(post.lines), self._tokens(other.lines) if other else 0
        is_problem = post is self._thread.problem
        share = total * (1 - RESOLUTION_SHARE if is_problem else RESOLUTION_SHARE) if other else total
        allowed = int(max(share, total - theirs))
        if mine <= allowed:
            return _Piece(post, tuple(post.lines)), []
        first, *rest = self._pieces(post, post.lines, allowed)
        lines = [line for piece in rest for line in piece.lines]
        return first, self._pieces(post, lines, self._room)

    def _main_row(self, problem: _Piece, solution: _Piece | None, more: Sequence[_Piece]) -> Chunk:
        said = problem.text or _NO_DESCRIPTION
        answer = solution.text if solution else ""
        closing = self._closing_line()
        parts = [f"{PROBLEM}:\n{said}"]
        if solution is not None:
            parts.append(f"Resolution ({self._speaker(solution.post)}):\n{answer}")
        if closing:
            parts.append(closing)
        searched = "\n".join(part for part in (said, answer, closing) if part)
        end = more[0].lines[0].number - 1 if more else self._thread.problem.last_line
        return self._row(
            view="",
            section=PROBLEM if solution is None else "Problem and resolution",
            content="\n\n".join(parts),
            searched=searched,
            embedded=self._digest(problem, answer, closing),
            span=(1, end),
            url=self._address,
        )

    def _digest(self, problem: _Piece, answer: str, closing: str) -> str:
        """Returns problem and resolution as far as the model reads, the error lines before the rest."""
        said = stable_text(problem.text)
        whole = "\n".join(part for part in (said, answer, closing) if part) or self._title
        if self._budget.counter.count(whole) <= self._room:
            return whole
        self.counts["digested"] += 1
        answered = "\n".join(part for part in (answer, closing) if part)
        for_answer = min(self._budget.counter.count(answered), int(self._room * RESOLUTION_SHARE)) if answered else 0
        # Two tokens less: joining parts may split a word otherwise than counting it alone.
        for_problem = self._room - for_answer - 2
        errors = stable_text("\n".join(line.text for line in error_lines(problem.lines)))
        errors = self._budget.counter.truncate(errors, for_problem // 2)
        begin = self._budget.counter.truncate(said, for_problem - self._budget.counter.count(errors))
        missing = "\n".join(line for line in errors.split("\n") if line and line not in begin)
        answered = self._budget.counter.truncate(answered, for_answer)
        return "\n".join(part for part in (begin, missing, answered) if part)

    def _closing_line(self) -> str:
        lines = []
        if self._resolution.kind == "duplicate":
            of = self._resolution.duplicate_of
            lines.append(f"Closed as a duplicate of issue {of}." if of else "Closed as a duplicate.")
        if self._thread.closed_by:
            numbers = ", ".join(str(number) for number in self._thread.closed_by)
            lines.append(f"Closed by merged pull request {numbers}.")
        elif self._resolution.kind == "none":
            lines.append("No resolution was found in this thread.")
        return " ".join(lines)

    # Further rows.

    def _more(self, name: str, section: str, pieces: Sequence[_Piece]) -> Iterator[Chunk]:
        for place, piece in enumerate(pieces, start=2):
            following = pieces[place - 1].lines[0].number - 1 if place - 1 < len(pieces) else piece.post.last_line
            yield self._row(
                view=f"{name}:{place}",
                section=section,
                content=piece.text,
                searched=piece.text,
                embedded=piece.text,
                span=(piece.lines[0].number, following),
                url=self._url(piece.post),
            )

    def _comment_rows(self) -> Iterator[Chunk]:
        groups = list(self._groups(self._chosen()))
        for place, group in enumerate(groups, start=1):
            first, last = group[0], group[-1]
            # A comment that goes on in the next row has its blank lines between the two here.
            end = last.post.last_line if last.last else groups[place][0].lines[0].number - 1
            text = "\n\n".join(self._labelled(piece) for piece in group)
            start = first.post.first_line if first.part == 1 else first.lines[0].number
            yield self._row(
                view=f"comment:{first.post.id}" + (f":{first.part}" if first.part > 1 else ""),
                section=COMMENTS,
                content=text,
                searched=text,
                embedded=text,
                span=(start, end),
                url=self._url(first.post),
            )

    def _chosen(self) -> list[_Piece]:
        """Returns the other comments in pieces; of a long thread those that say most."""
        pieces: list[tuple[int, int, list[_Piece]]] = []
        for place, (post, points) in enumerate(score(self._thread)):
            if post is self._resolution.comment:
                continue
            shows = "`" in post.text or any(line.code for line in post.lines) or error_lines(post.lines)
            if len(post.text.split()) < MIN_COMMENT_WORDS and not shows and post.text.isascii():
                self._leave_out("no_substance", post)
                continue
            weight = points + 2 * bool(error_lines(post.lines))
            # The label and what joins it are counted with the lines.
            pieces.append((weight, place, self._pieces(post, post.lines, max(self._room - _LABEL_TOKENS, 1))))
        kept: list[tuple[int, list[_Piece]]] = []
        used = 0
        for _, place, parts in sorted(pieces, key=lambda entry: (-entry[0], entry[1])):
            size = sum(self._tokens(piece.lines) + _LABEL_TOKENS for piece in parts)
            if used + size > MAX_COMMENT_ROWS * self._room:
                self._leave_out("beyond_limit", parts[0].post)
                continue
            used += size
            kept.append((place, parts))
        return [piece for _, parts in sorted(kept, key=lambda entry: entry[0]) for piece in parts]

    def _groups(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Yields comments that stand next to each other and fit into one row together."""
        group: list[_Piece] = []
        used = 0
        for piece in pieces:
            size = self._budget.counter.count(self._labelled(piece)) + 1
            # A row's span is one stretch of lines: what lies between belongs to another row.
            apart = bool(group) and self._between(group[-1].post, piece.post)
            if group and (used + size > self._room or apart):
                yield group
                group, used = [], 0
            group.append(piece)
            used += size
        if group:
            yield group

    def _between(self, before: Post, after: Post) -> bool:
        answer = self._resolution.comment
        return answer is not None and before.first_line < answer.first_line < after.first_line

    def _leave_out(self, rule: str, post: Post) -> None:
        taken = {number for _, number in post.removed}
        numbers = [n for n in range(post.first_line, post.last_line + 1) if n not in taken]
        self._unused += [(rule, number) for number in numbers]
        self.counts[rule] += 1

    # What all rows have.

    def _pieces(self, post: Post, given: Sequence[Line], limit: int) -> list[_Piece]:
        """Returns lines of a post in pieces of at most a number of tokens, cut at lines where they are short enough."""
        lines = self._short_enough(given, limit)
        sizes = self._sizes(lines)
        runs: list[list[Line]] = [[]]
        used = 0
        for line, size in zip(lines, sizes, strict=True):
            if runs[-1] and used + size > limit:
                runs.append([])
                used = 0
            runs[-1].append(line)
            used += size
        return [_Piece(post, tuple(run), part, part == len(runs)) for part, run in enumerate(runs, start=1)]

    def _short_enough(self, lines: Sequence[Line], limit: int) -> list[Line]:
        out: list[Line] = []
        for line, size in zip(lines, self._sizes(lines), strict=True):
            rest = line.text
            while size > limit:
                head = self._budget.counter.truncate(rest, limit)[: limit * BYTES_A_TOKEN // 4] or rest[:1]
                out.append(Line(line.number, head, line.code))
                rest = rest[len(head) :]
                size = self._sizes([Line(line.number, rest)])[0]
            out.append(line if rest is line.text else Line(line.number, rest, line.code))
        return out

    def _sizes(self, lines: Sequence[Line]) -> list[int]:
        """Returns the tokens of each line; a long word that the model does not know is one token and many bytes."""
        counts = self._budget.counter.count_many([line.text for line in lines]) if lines else []
        return [max(count, len(line.text.encode()) // BYTES_A_TOKEN) for count, line in zip(counts, lines, strict=True)]

    def _tokens(self, lines: Sequence[Line]) -> int:
        return sum(self._sizes(lines))

    def _row(
        self, *, view: str, section: str, content: str, searched: str, embedded: str, span: tuple[int, int], url: str
    ) -> Chunk:
        # Times and hashes say nothing to a model either, and take most tokens of a log.
        embedding, cut = self._budget.embedding_text(self._header, stable_text(embedded).strip() or embedded)
        self.counts["truncated"] += cut
        return compose_row(
            self._document,
            title=self._title,
            content=content,
            embedding_text=embedding,
            citation_url=url,
            fields=self._fields,
            section_path=section,
            searched=search_text(self._title, "", stable_text(searched)),
            view=view,
            lines=(span[0], max(span)),
            version=self._versions,
        )

    def _own_fields(self) -> dict[str, FieldValue]:
        thread = self._thread
        labels = [fit_bytes(label, MAX_LABEL_BYTES) for label in thread.labels]
        return {
            "issue_number": thread.number,
            "state": thread.state,
            "state_reason": thread.state_reason if _STATE_REASON.fullmatch(thread.state_reason) else "",
            "labels": tuple(labels[:MAX_LABELS]),
            "created_at": thread.created_at,
            "closed_at": thread.closed_at,
            "resolved": self._resolution.resolved,
        }

    def _speaker(self, post: Post) -> str:
        if post.author and post.author == self._thread.problem.author:
            who = "author"
        else:
            who = "maintainer" if post.maintainer else "user"
        return f"{who}, {post.created_at[:10]}"

    def _labelled(self, piece: _Piece) -> str:
        return f"Comment ({self._speaker(piece.post)}):\n{piece.text}"

    def _url(self, post: Post) -> str:
        return f"{self._address}#issuecomment-{post.id}" if post.id else self._address


# What "Comment (maintainer, 2024-05-01):" takes.
_LABEL_TOKENS: Final = 16


def _spans(numbered: list[tuple[str, int]]) -> Iterator[Removed]:
    """Yields runs of neighbouring lines that one rule took."""
    run: tuple[str, int, int] | None = None
    for rule, number in sorted(set(numbered), key=lambda pair: (pair[1], pair[0])):
        if run is not None and run[0] == rule and number == run[2] + 1:
            run = (rule, run[1], number)
            continue
        if run is not None:
            yield Removed(*run)
        run = (rule, number, number)
    if run is not None:
        yield Removed(*run)
