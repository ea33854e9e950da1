"""The rules by which threads are read: who is a program, what is boilerplate, what says that something went wrong.

Every pattern is bounded and free of nested repetition, and is matched against one line or the start of a text: any text
is read in linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kubeflow_corpus.vocabulary import Vocabulary, either


def _any(*alternatives: str) -> str:
    return f"(?:{'|'.join(alternatives)})"


def _rule(*alternatives: str) -> re.Pattern[str]:
    return re.compile(_any(*alternatives), re.IGNORECASE)


# Who maintains a repository, as GitHub says of every text.
MAINTAINERS: Final = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})

# Accounts that are programs although GitHub calls them users; see also `ThreadRules.is_bot`.
BOTS: Final = frozenset(
    {
        "allcontributors",
        "codecov",
        "copybara-github",
        "copybara-service",
        "dependabot",
        "google-oss-prow",
        "googlebot",
        "mergify",
        "netlify",
        "renovate",
        "stale",
    }
)
# What a program posts, whoever's account it uses. Searched in the first lines of a comment.
BOT_TEXTS: Final = _rule(
    r"this issue (?:has been|is being) automatically (?:marked as stale|closed)",
    r"has not had (?:any )?recent activity",
    r"issue-label bot is automatically",
    r"rotten issues close after",
    r"(?:issues go stale|stale issues rot) after",
    r"mark the issue as fresh",
    r"\[?approval ?notifier\]?",
    r"your pull request (?:is|was) (?:approved|automatically)",
    r"instructions for interacting with me using pr comments",
    r"all (?:cla|dco) requirements",
    r"beep boop",
)

_THANKS: Final = _any("thanks", "thank you", "thx", "regards", "cheers", "greetings", "best", "sincerely", "br")
_FOR_WHAT: Final = _any(
    "in advance", "a lot", "so much", "very much", "again", "everyone", "all", "guys", r"for (?:your|the|any) \w{4,12}"
)

# What takes a whole line out, outside of code: (rule, pattern of the whole line without the spaces around it).
LINE_RULES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "slash_command",
        _rule(
            r"/(?:kind|area|assign|unassign|cc|uncc|close|reopen|lifecycle|remove-\w{1,20}|priority"
            r"|platform)\b.{0,200}",
            r"/(?:lgtm|approve|hold|triage|sig|wg|good-first-issue|help|help-wanted|label|milestone"
            r"|retest)\b.{0,200}",
            r"/(?:test|ok-to-test|transfer|transfer-issue|duplicate|retitle|freeze|rerun(?:-\w{1,12})?)\b.{0,200}",
            r"/(?:cherry-?pick)\b.{0,200}",
        ),
    ),
    (
        "template_prompt",
        re.compile(
            r"[-*>\d.\s]{0,8}[\[(_*<]{0,3}\s?"
            + _any(
                r"a clear and concise description of",
                r"add any other context",
                r"if applicable, add screenshots",
                r"miscellaneous information",
                r"please (?:describe|include|provide|fill|specify|add|search|replace|explain|read|select)\b.{0,160}"
                r"\b(?:here|below|above|template|issue|bug|labels?|information|following)\b",
                r"to help us debug,? please run",
                r"specify how to (?:reproduce|find)",
                r"help us debug this issue by",
                r"what should the correct behaviou?r",
                r"describe the (?:solution|alternatives|feature) (?:you'd|you've|you would)",
                r"tell us (?:about|what|how)\b",
                r"don't delete (?:the )?message below",
                r"detail in lay terms",
                r"for more information, see an overview of",
                r"you can find (?:the|your) version",
                r"who would benefit from this",
                r"is there currently another way",
            )
            + r".{0,400}",
            re.IGNORECASE,
        ),
    ),
    (
        "checklist",
        _rule(
            r"[-*+]\s?\[[ xX]?\]\s?(?:i|i've|i have|i'm|i am|we|this is|my)\b.{0,300}",
            r"[-*+]\s?\[[ xX]?\]\s?.{0,200}\b(?:code of conduct|contributing guide|existing issues?"
            r"|duplicates?)\b.{0,200}",
        ),
    ),
    ("unanswered", _rule(r"[_*]{0,2}(?:no response|n/?a|none)[_*]{0,2}\.?", r"-{1,2}", r"\.{3}")),
    ("rule", _rule(r"(?:[-*_=]\s?){3,200}")),
    (
        "mail",
        _rule(
            r"on .{5,120}(?:wrote|écrit|schrieb):?",
            r"(?:from|sent|to|subject|date): .{0,200}@.{0,200}",
            r"sent from (?:my|outlook|yahoo|mail).{0,80}",
            r"get outlook for .{0,80}",
        ),
    ),
    (
        "signature",
        _rule(
            rf"(?:(?:many|kind|best|warm) )?{_THANKS}(?: {_FOR_WHAT})?[\s,.!:)🙏😊🙂👍]{{0,8}}",
            r"-{1,2}\s?\w{1,20}",
            r"[—–]{1,3}",
            r"谢谢.{0,10}",
            r"よろしく.{0,20}",
            r"(?:gracias|merci|danke).{0,20}",
        ),
    ),
    ("image", _rule(r"(?:!\[[^\]]{0,200}\]\([^)\s]{1,500}\)\s?|<img\b[^>]{0,600}>\s?){1,20}")),
    (
        "markup",
        _rule(r"(?:</?(?:details|summary|p|br|div|center|b|i|table|tr|td|th|ul|ol|li|hr)\b[^>]{0,200}>\s?){1,10}"),
    ),
)
# Everything from here on is a mail that somebody answered, with its footer.
REST_OF_MAIL: Final = _rule(
    r"you are receiving this because",
    r"reply to this email directly",
    r"view it on github",
    r"message id: <",
    r"-----original message",
)

_SAME: Final = _any(
    r"\+\s?1",
    r"-\s?1",
    "👍",
    "👀",
    r"same(?: (?:here|issue|problem|error|question|for me))?(?: (?:here|too|as well))?",
    "me too",
    r"(?:i am|i'm|we are|also|still)? ?(?:facing|having|seeing|hitting|getting|experiencing) (?:the |this "
    r"|exactly the )?"
    r"same(?: (?:issue|problem|error|thing))?(?: (?:here|too|as well))?",
    r"i (?:also )?have the same (?:issue|problem|error|question)\w{0,20}",
    r"any (?:update|news|progress|eta|workaround|solution|luck|fix)(?:es|s)?"
    r"(?: (?:on|for|about|regarding|here|yet|please).{0,60})?",
    r"(?:is there )?anything new\w{0,20}",
    "bump",
    "ping",
    "following",
    r"(?:thanks|thank you|thx|great|cool|nice|awesome|sure|ok|okay)\b.{0,40}",
    r"done(?:\.? thanks.{0,20})?",
    "cc",
    "fyi",
    "lgtm",
    r"i(?: want|'d like| would like) to (?:work on|solve|take) this(?: issue| one)?",
    r"can i (?:work on|take) this(?: issue| one)?",
    r"please assign (?:this|it|me).{0,40}",
    r"顶|同问|同样的问题|一样的问题|遇到(?:了)?(?:同样|一样)的问题",
    "mismo problema",
    "gleiches problem",
)
# A whole comment that only says that its writer is there.
NO_SUBSTANCE: Final = re.compile(
    r"(?:@[\w-]{1,40}[,:]?\s{0,3}){0,6}" + _SAME + r"[\s.!?:)👍🙏🎉😊]{0,8}(?:@[\w-]{1,40}\s{0,2}){0,6}",
    re.IGNORECASE,
)
NO_SUBSTANCE_LENGTH: Final = 160

# A line that says what went wrong.
ERROR_LINE: Final = _rule(
    r"\b(?:error|errors|err|fatal|panic|exception|failed|failure|failing|fails|traceback|denied|forbidden|refused)\b",
    r"\b(?:unauthorized|timed? ?out|deadline exceeded|cannot|can't|could ?n[o']t|unable|invalid|missing)\b",
    r"\b(?:not found|no such|unknown|unsupported|oomkilled|crashloopbackoff|imagepullbackoff|errimagepull"
    r"|evicted|killed)\b",
    r"\b(?:segmentation|exit(?:ed)? (?:code|with)|backoff|unhealthy|mismatch|conflict|violat\w{1,8}|rejected"
    r"|aborted)\b",
    r"\b(?:undefined|no module named|not ready|insufficient|already exists|does ?n[o']t exist|not registered)\b",
    r"\b(?:not allowed|no endpoints|no matches for)\b",
    r"\b\w{1,60}(?:Error|Exception)\b",
)
# A line that a program logged.
LOG_LINE: Final = re.compile(
    r"\s{0,8}"
    + _any(
        r"\[?\d{4}[-/]\d\d[-/]\d\d",
        r"[IWEF]\d{4} \d\d:",
        r"\[?\d\d:\d\d:\d\d",
        r"(?:time|ts|level|msg)=",
        r'\{"(?:level|ts|time|msg|severity)',
        r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|FATAL|TRACE)\b",
        r'File "',
        r"at [\w.$<>]{3,200}\(",
        r"goroutine \d",
        r"Traceback",
        r"[\w./-]{3,120}\.go:\d",
        r"(?:Normal|Warning)\s{1,10}\w",
    )
)

# Software of which every template may ask the version, and whose versions are never a project's own.
_VERSION_QUESTIONS: Final = ("kubernetes", "os", "minikube/kind", "minikube", "docker", "python", "helm chart")
_FOREIGN_SOFTWARE: Final = (
    *(
        "kubernetes",
        "k8s",
        "kubectl",
        "containerd",
        "docker",
        "minikube",
        "kind",
        "k3s",
        "microk8s",
        "eks",
        "aks",
        "gke",
    ),
    *("python", "py", "pip", "go", "golang", "node", "npm", "java", "jdk", "scala", "helm", "cuda", "nvidia", "driver"),
    *("ubuntu", "debian", "centos", "rhel", "macos", "windows", "linux", "kernel", "chrome", "firefox", "safari"),
    *("mysql", "mariadb", "postgres(?:ql)?", "numpy", "pandas", "sklearn", "scikit-learn", "protobuf", "grpcio"),
    *(
        "pydantic",
        "urllib3",
        "requests",
        "setuptools",
        "wheel",
        "server",
        "client",
        "api",
        "tls",
        "http",
        "ipv4",
        "ipv6",
    ),
)
_COUNTER_QUESTIONS: Final = ("version", "kubernetes", "image", "platform", "cluster", "error", "is the output", "does")


@dataclass(frozen=True, slots=True)
class ThreadRules:
    """The rules that hold words of a project.

    Attributes:
        bots: Accounts that are programs.
        lines: What takes a whole line out: (rule, pattern).
        question: A question of a template, with nothing behind it.
        counter_question: A comment that asks back.
        own: Names whose version is one of the project.
        foreign: Names whose version is not: `Kubernetes 1.27` says nothing of a release of the project.
    """

    bots: frozenset[str]
    lines: tuple[tuple[str, re.Pattern[str]], ...]
    question: re.Pattern[str]
    counter_question: re.Pattern[str]
    own: re.Pattern[str]
    foreign: re.Pattern[str]

    def is_bot(self, login: str) -> bool:
        """Whether an account is a program by its name."""
        return login.endswith(("[bot]", "-bot", "-robot")) or login in self.bots


@lru_cache(maxsize=8)
def thread_rules(vocabulary: Vocabulary) -> ThreadRules:
    """Returns the rules with the words of a project."""
    words = re.IGNORECASE
    version_of = either((*_VERSION_QUESTIONS, *vocabulary.version_questions))
    return ThreadRules(
        bots=BOTS | {name.casefold() for name in vocabulary.bots},
        lines=(*LINE_RULES, ("boilerplate", re.compile(either(vocabulary.boilerplate), words))),
        question=_question(version_of),
        counter_question=re.compile(
            rf"\b(?:which|what) {either((*_COUNTER_QUESTIONS, *vocabulary.counter_questions))}\b.{{0,120}}\?", words
        ),
        own=re.compile(rf"\b{either(vocabulary.own_software)}\b", words),
        foreign=re.compile(rf"\b{either((*_FOREIGN_SOFTWARE, *vocabulary.foreign_software))}\b", words),
    )


def _question(version_of: str) -> re.Pattern[str]:
    return re.compile(
        r"[-*+\d.)\s]{0,8}(?:\[[ xX]\]\s?)?[*_`]{0,2}"
        + _any(
            r"how (?:did|do) you deploy",
            r"what happened",
            r"what did you expect",
            r"what steps did you take",
            r"what you expected",
            r"anything else",
            r"kubernetes platform",
            r"cloud environment",
            r"browser",
            r"host os",
            r"environment",
            r"labels?",
            rf"{version_of} version",
            r"os \(e",
        )
        + r"[^:?]{0,140}[:?][*_]{0,2}\s{0,3}(?:\([^)]{0,120}\)\s?:?)?(?:\[[^\]]{0,120}\])?[*_\s]{0,4}",
        re.IGNORECASE,
    )


# Any list item that ends where its answer would begin.
COLON_LINE: Final = re.compile(
    r"[-*+]\s{1,3}[*_`]{0,3}[^:]{1,100}:[*_`\s]{0,4}(?:\([^)]{0,120}\)\s?:?)?(?:\[[^\]]{0,120}\])?[\s.]{0,3}"
)
HEADING: Final = re.compile(r"(#{1,6})\s{1,4}\S")
BOLD_LINE: Final = re.compile(r"(?:\*\*|__)[^*_]{1,160}(?:\*\*|__)\s?:?\s{0,4}")
FENCE: Final = re.compile(r"[ \t>]{0,12}(`{3,20}|~{3,20})([^`\n]{0,80})")
TASK: Final = re.compile(r"^(\s{0,20}[-*+])\s?\[[ xX]?\]\s")
TAG: Final = re.compile(r"</?(?:details|summary|br|p|b|i|sub|sup|kbd|div|img|center|hr)\b[^>]{0,400}>", re.IGNORECASE)
IMAGE: Final = re.compile(r"!\[[^\]]{0,200}\]\([^)\s]{1,600}\)")
