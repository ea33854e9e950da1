"""Which comment of a thread resolves it: rules that add up, in one table.

Every comment that is left after cleaning gets points for what it says (`TEXT_RULES`), for who says it, for the
reactions to it, for standing right before the close, and for being confirmed: somebody, above all the person who asked,
says afterwards that it worked. The best comment resolves the thread if it reaches the threshold. A comment that only
confirms never does; it points at the one before it. "None found" is an outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from kubeflow_corpus.chunking.threads.rules import ThreadRules
from kubeflow_corpus.chunking.threads.thread_text import Post, Thread

# Points that the best comment needs, by the state of the issue. An open issue may hold its answer; the words for it
# must be plainer, because nobody has said yet that it is one.
THRESHOLDS: Final = {"closed": 5, "open": 7}


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


# What a comment says outside of code: (rule, points, pattern). Each counts once.
TEXT_RULES: Final[tuple[tuple[str, int, re.Pattern[str]], ...]] = (
    (
        "names a fix",
        4,
        _words(
            r"\bwork-?around\b",
            r"\b(?:the|a|my|our|quick|final|actual|correct|one) (?:fix|solution|answer) (?:is|was|for|would be|to)\b",
            r"\bsolution:",
            r"\b(?:solved|fixed|resolved|fixes|solves|resolves) (?:it|this|that|the|my|our)\b.{0,80}?\b(?:by"
            r"|with|after|using|via)\b",
            r"\bi (?:was able to|managed to|could|have|had to|just|finally)\b.{0,30}\b(?:fix|solve|resolve|work"
            r" around)",
            r"\b(?:works?|working|worked|it runs|goes away|disappears?|went away)\b(?: \w{1,12}){0,3} (?:after"
            r"|when|once|with|if|by)\b",
            r"\b(?:got|get|made|make) (?:it|this|that) (?:to )?work(?:ing)?\b",
            r"解决(?:方法|办法|方案|了)|修复|升级到|降级到|改成|改为",
            r"\bthen (?:it|this|that|everything) (?:works|worked|runs|should work|will work)\b",
            r"\bsoluci[oó]n\b|\bse soluciona\b|\blösung\b|\bbehoben\b|\brésolu\b|\bsolução\b|解決|해결",
        ),
    ),
    (
        "closing reference",
        4,
        _words(
            r"\b(?:fix(?:ed|es)?|resolved?|solved|closed|addressed|implemented|merged|released|shipped|landed"
            r"|available|included)"
            r" (?:\w{1,12} ){0,4}(?:by|in|via|with|through|since|as of|from)?:? ?"
            r"(?:#\d|pr\b|pull request|https?://\S{1,200}/(?:pull|commit|releases)/|v?\d{1,4}\.\d"
            r"|[0-9a-f]{7,40}\b|(?:the )?"
            r"(?:next|latest|new|upcoming|current) (?:\w{1,12} )?(?:release|version)|master\b|main\b)",
            r"#\d{1,7} (?:fixes|fixed|resolves|resolved|solves|solved|addresses|should fix|has fixed)\b",
            r"/pull/\d{1,7}\S{0,40} (?:fixes|fixed|resolves|resolved|solves|solved|addresses|should fix|has fixed)\b",
        ),
    ),
    (
        "says it is fixed",
        3,
        _words(
            r"\b(?:is|was|has been|have been|are|were|been|got|should be|should now be)(?: \w{1,12}){0,2}"
            r" (?:fixed|resolved|solved|addressed|implemented|supported)\b",
            r"\b(?:now|already) (?:fixed|resolved|solved|supported|available|works|possible)\b",
        ),
    ),
    (
        "instructs",
        3,
        _words(
            r"\byou(?:'ll)? (?:need|have|should|must|can|could|may|might|want)(?: to| also| try| just| either)?\b",
            r"\bplease (?:use|upgrade|update|set|add|try|change|remove|install|run|follow|make sure|check that"
            r"|refer|see)\b",
            r"\b(?:try|by|consider) (?:setting|adding|using|upgrading|updating|removing|changing|deleting"
            r"|restarting|running|installing"
            r"|increasing|downgrading|pinning|replacing|passing|disabling|enabling|creating|to (?:set|add|use"
            r"|upgrade|delete|run))\b",
            r"\b(?:make sure|ensure|instead of|needs? to be|has to be|must be|should be set|is required)\b",
            # An imperative: at the start of a line, of a sentence or of an alternative.
            r"(?:^|\n|[.:;!,] |\b(?:or|then|either|just|first) )\s{0,6}(?:\d{1,2}[.)]|[-*])?\s{0,4}(?:set|use"
            r"|upgrade|update|downgrade|add|remove|delete|change|replace|increase|raise|lower|install|pin|patch|export|run|apply|edit"
            r"|restart|create|switch|disable|enable|try|bump|rebuild|reinstall|print|pass|mount|skip|migrate|mark|check|put"
            r"|copy|configure|grant|allow|exclude|annotate|label|move|rename|attach|specify|force)\b",
            # A requirement: `needs kustomize 5.0.0`.
            r"\b(?:needs?|requires?|expects?) (?:at least )?(?:[\w-]{1,20} ){0,2}v?\d{1,4}\.\d",
        ),
    ),
    (
        "explains",
        2,
        _words(
            r"\b(?:the|root|real|main|actual) (?:problem|issue|cause|reason|root cause|culprit"
            r"|error)\b.{0,60}?\b(?:is|was)\b",
            r"\b(?:root cause|turned out|turns out|caused by|due to|because|this happens|that happens|happens"
            r" when|it seems that)\b",
            r"\b(?:expected behaviou?r|by design|works as intended|working as intended|not supported|isn't"
            r" supported|known"
            r" (?:issue|limitation)|no longer (?:supported|needed)|this is (?:expected|intended)|won't (?:fix"
            r"|support))\b",
            r"原因是|是因为|因为",
        ),
    ),
    ("shows how", 1, re.compile("")),
    (
        "still broken",
        -4,
        _words(
            r"\bstill (?:fail|see|get|happen|not|the same|an issue|broken|having|facing|getting|seeing|doesn't"
            r"|present|reproduc|exists?)",
            r"\b(?:did|does|do|has|have|is)(?:n't| not) (?:work|help|fix|solve|resolve|change|make)",
            r"\b(?:isn't|not|never|aren't) (?:fixed|resolved|solved|working)\b",
            r"\bno luck\b|\bstill no\b|\bunfortunately\b.{0,40}\b(?:same|still|not)\b|\bproblem persists\b"
            r"|\bissue persists\b",
            r"没有用|不行|还是(?:不|报错)",
        ),
    ),
    (
        "asks",
        -3,
        _words(
            r"\b(?:can|could|would) (?:you|someone|anyone|somebody)\b(?: \w{1,12}){0,2} (?:provide|share|post"
            r"|check|paste|confirm|explain"
            r"|tell|show|give|help|try to|send|attach|describe|elaborate|clarify)",
            r"\b(?:has|did|does|is) (?:any(?:one|body)|someone|there)\b.{0,160}\?",
            r"\bhow (?:did|do|can|should) (?:you|i|we)\b.{0,120}\?",
            r"\bplease (?:share|provide|post|paste|attach|let us know|let me know)\b",
            r"\?\s{0,4}(?:@[\w-]{1,40}\s{0,3}){0,4}$",
        ),
    ),
    (
        "closes without an answer",
        -6,
        _words(
            r"\bclos(?:e|ed|ing)\b.{0,60}\b(?:inactiv|stale|no (?:response|activity|reply|update|follow)|lack of"
            r"|due to age|old)",
            r"\b(?:stale|inactivity)\b.{0,60}\bclos",
            r"\bno longer (?:maintain|relevant|reproduc)",
        ),
    ),
    (
        "announces work",
        -3,
        _words(
            r"\bi(?:'ll| will| can| am going to|'m going to)(?: \w{1,12}){0,2} (?:take|look|work|send|open"
            r"|create|submit|investigate|check|try)\b",
            r"\b(?:working on (?:it|this|a)|will be (?:fixed|addressed|resolved)|we(?:'ll| will) (?:look|fix|try"
            r"|investigate|discuss|need))\b",
            r"\b(?:let me|let's) (?:check|look|try|investigate|discuss)\b|\bi want to work on\b|\bcontributions?"
            r" (?:is|are) welcome\b",
        ),
    ),
    (
        "points at a duplicate",
        -4,
        _words(
            r"\bduplicate (?:of|issue)\b",
            r"\b(?:dup|dupe) of\b",
            r"\bclosing (?:this )?in favou?r of\b",
            r"\btracked in\b",
        ),
    ),
)
# "shows how" is not a pattern: the comment has code, a command or a path of its own.
_SHOWS_HOW: Final = "shows how"
# What a comment asks back has words of the project as well: `ThreadRules.counter_question`.
_ASKS: Final = "asks"

# Who speaks.
MAINTAINER_POINTS: Final = 2
CONTRIBUTOR_POINTS: Final = 1
# Positive reactions: (at least this many, points).
REACTION_POINTS: Final = ((8, 3), (3, 2), (1, 1))
POSITIVE: Final = ("+1", "heart", "hooray", "rocket", "laugh")
NEGATIVE: Final = ("-1", "confused")
DISLIKED_POINTS: Final = -2
# Places before the close: the last comment, and the one before it.
LAST_WORDS_POINTS: Final = (2, 1)
# Confirmed by the person who asked, or by somebody else.
AUTHOR_CONFIRMS_POINTS: Final = 5
OTHER_CONFIRMS_POINTS: Final = 3
ONLY_CONFIRMS_POINTS: Final = -6
# The comment right before a confirmation is taken before an earlier one that scores no more than this above it.
JUST_READ_POINTS: Final = 2
# A confirmation is as short as this; what is longer says something of its own.
CONFIRMATION_LENGTH: Final = 400
# What is read of a comment.
READ_LENGTH: Final = 6000

CONFIRMATION: Final = _words(
    r"\b(?:that|this|it|your \w{1,12}|the \w{1,12}|which|solution|workaround) (?:\w{1,8} )?(?:worked|works|did"
    r" (?:it|the trick|help|work)"
    r"|fixed|solved|resolved|helped|does the trick)\b",
    r"\b(?:works|working|worked) (?:now|fine|great|well|perfectly|for me|like a charm|as expected)\b",
    r"\b(?:problem|issue|error|bug)s? (?:is |are |was |has been |got )?(?:\w{1,8} )?(?:solved|fixed|resolved|gone)\b",
    r"\b(?:can|i) confirm\b",
    r"\b(?:solved|fixed|resolved|cured) (?:it|this|that|the|my|our) ?\w{0,12}[.!]{0,3}$",
    r"\b(?:works|worked|working|solved|fixed|resolved|helped)[\s.!:)🎉👍]{0,6}$",
    r"\b(?:thanks?|thank you|thx)\b.{0,60}\b(?:work|fix|solv|resolv|help|trick)",
    r"\b(?:it|everything|all) (?:is |was )?(?:works|working|fine|good|ok|running) (?:now|again)\b",
    r"可以了|好了|解决了|问题解决|有效|動きました|됩니다",
    r"funciona|funcionó|gracias,? (?:eso|ya)|funktioniert|hat geholfen|ça marche",
)
DUPLICATE: Final = re.compile(
    r"\b(?:duplicate|dup|dupe) of:? ?(?:https?://\S{1,120}/issues/|[\w.-]{1,60}/[\w.-]{1,60}#|#)(\d{1,7})",
    re.IGNORECASE,
)
_MENTION: Final = re.compile(r"@([\w-]{1,40})")
_CODE: Final = re.compile(r"`[^`\n]{3,200}`")

Kind = Literal["comment", "pull_request", "duplicate", "none"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a thread ends.

    Attributes:
        kind: Whether a comment resolves it, merged pull requests do, it is a duplicate, or nothing is found.
        comment: The comment, where one resolves it.
        duplicate_of: Number of the issue that it repeats, or 0.
    """

    kind: Kind
    comment: Post | None = None
    duplicate_of: int = 0

    @property
    def resolved(self) -> bool:
        """Whether the thread contains its resolution."""
        return self.kind in ("comment", "pull_request")


def find_resolution(thread: Thread) -> Resolution:
    """Finds how a cleaned thread ends."""
    points = score(thread)
    duplicate = _duplicate_of(thread)
    best = max(points, key=lambda pair: (pair[1], pair[0].created_at), default=None)
    if best is not None and best[1] >= THRESHOLDS[thread.state] and thread.state_reason != "duplicate":
        return Resolution("comment", best[0], duplicate)
    if duplicate or thread.state_reason == "duplicate":
        return Resolution("duplicate", None, duplicate)
    return Resolution("pull_request" if thread.closed_by and thread.state == "closed" else "none")


def score(thread: Thread) -> list[tuple[Post, int]]:
    """Returns the points of every comment that says something, oldest first."""
    comments = [post for post in thread.comments if not post.reason]
    points = [_text_points(post, thread.rules) + _speaker_points(post) + _reaction_points(post) for post in comments]
    for place, index in enumerate(_before_close(thread, comments)):
        points[index] += LAST_WORDS_POINTS[place]
    for index, post in enumerate(comments):
        if not _confirms(post, thread.rules):
            continue
        by_author = bool(post.author) and post.author == thread.problem.author
        if not _names_a_fix(post, thread.rules):
            points[index] += ONLY_CONFIRMS_POINTS
        target = _confirmed(comments, points, index)
        if target is not None:
            points[target] += AUTHOR_CONFIRMS_POINTS if by_author else OTHER_CONFIRMS_POINTS
    return list(zip(comments, points, strict=True))


def _text_points(post: Post, rules: ThreadRules) -> int:
    text = post.prose[:READ_LENGTH]
    shows = any(line.code for line in post.lines) or _CODE.search(text) is not None
    return sum(
        points
        for rule, points, pattern in TEXT_RULES
        if (shows if rule == _SHOWS_HOW else _matches(rule, pattern, text, rules))
    )


def _speaker_points(post: Post) -> int:
    if post.maintainer:
        return MAINTAINER_POINTS
    return CONTRIBUTOR_POINTS if post.association == "CONTRIBUTOR" else 0


def _reaction_points(post: Post) -> int:
    liked = sum(post.reactions.get(name, 0) for name in POSITIVE)
    disliked = sum(post.reactions.get(name, 0) for name in NEGATIVE)
    if disliked > liked:
        return DISLIKED_POINTS
    return next((points for least, points in REACTION_POINTS if liked >= least), 0)


def _before_close(thread: Thread, comments: list[Post]) -> list[int]:
    if thread.state != "closed" or not thread.closed_at:
        return []
    before = [index for index, post in enumerate(comments) if post.created_at <= thread.closed_at]
    return before[::-1][: len(LAST_WORDS_POINTS)]


def _confirms(post: Post, rules: ThreadRules) -> bool:
    text = post.prose.strip()
    if len(text) > CONFIRMATION_LENGTH or not CONFIRMATION.search(text):
        return False
    # "Set it to false, then it works" tells others what to do, and "it works for me, is it not for you?" asks.
    return not any(_says(rule, text, rules) for rule in ("still broken", "instructs", _ASKS))


def _names_a_fix(post: Post, rules: ThreadRules) -> bool:
    """Returns whether a comment that confirms also says what to do, so that it is an answer by itself."""
    text = post.prose
    says = any(_says(rule, text, rules) for rule in ("names a fix", "closing reference"))
    return says or any(line.code for line in post.lines)


def _confirmed(comments: list[Post], points: list[int], index: int) -> int | None:
    """Returns which earlier comment a confirmation is about: of who is addressed, else the best of the last few."""
    confirmation = comments[index]
    mentioned = {name.casefold() for name in _MENTION.findall(confirmation.prose)}
    earlier = [i for i in range(index) if comments[i].author != confirmation.author or not confirmation.author]
    addressed = [i for i in earlier if comments[i].author.casefold() in mentioned]
    candidates = (addressed or earlier)[-3:]
    # People answer what they just read.
    best = max(candidates, key=lambda i: (points[i] + JUST_READ_POINTS * (i == candidates[-1]), i), default=None)
    return best if best is not None and points[best] > DISLIKED_POINTS else None


def _duplicate_of(thread: Thread) -> int:
    if thread.state != "closed":
        return 0
    for post in reversed(thread.comments):
        if post.reason == "bot":
            continue
        match = DUPLICATE.search(post.text[:READ_LENGTH])
        if match:
            return int(match[1])
    return 0


def _says(name: str, text: str, rules: ThreadRules) -> bool:
    return any(rule == name and _matches(rule, pattern, text, rules) for rule, _, pattern in TEXT_RULES)


def _matches(rule: str, pattern: re.Pattern[str], text: str, rules: ThreadRules) -> bool:
    return pattern.search(text) is not None or (rule == _ASKS and rules.counter_question.search(text) is not None)
