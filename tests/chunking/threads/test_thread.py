"""Issue threads as rows: what is removed, what resolves, what is kept whole."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.threads.resolution import find_resolution
from kubeflow_corpus.chunking.threads.thread import chunk, named_versions
from kubeflow_corpus.chunking.threads.thread_text import Thread, clean, read_thread
from kubeflow_corpus.collections import ISSUES
from kubeflow_corpus.records import Chunk, Chunked, Document
from kubeflow_corpus.store.rows import to_row
from kubeflow_corpus.tokens import wordpiece_counter
from kubeflow_corpus.vocabulary import default_vocabulary

from tests.servers.sample_threads import labels, sample_documents

BUDGET = Budget(wordpiece_counter(), 256)


def comment(body: str, *, by: str = "helper", association: str = "NONE", at: str = "2024-05-02", **more: Any) -> Any:
    return {
        "id": 0,
        "author": by,
        "author_association": association,
        "bot": False,
        "created_at": f"{at}T10:00:00Z",
        "updated_at": f"{at}T10:00:00Z",
        "reactions": {},
        "body": body,
        **more,
    }


def document(body: str = "", *comments: Any, title: str = "It fails", **more: Any) -> Document:
    thread = {
        **comment(body, by="reporter", at="2024-05-01"),
        "number": 7,
        "title": title,
        "url": "https://github.com/kubeflow/pipelines/issues/7",
        "state": "closed",
        "state_reason": "completed",
        "labels": ["kind/bug"],
        "closed_at": "2024-05-09T10:00:00Z",
        "closed_by": [],
        "comments_left_out": 0,
        "comments": [{**said, "id": number} for number, said in enumerate(comments, start=1)],
        **more,
    }
    del thread["id"]
    return Document(
        document_id="kfp-issues:7",
        source="kfp-issues",
        source_type="issue",
        repo="kubeflow/pipelines",
        revision="",
        path="issues/kubeflow/pipelines/7",
        url="https://github.com/kubeflow/pipelines/issues/7",
        title=title,
        text=json.dumps(thread),
        metadata={"product_area": ["pipelines"], "version": [], "updated_at": "2024-05-09T10:00:00Z"},
    )


def cut(body: str = "", *comments: Any, **more: Any) -> Chunked:
    return chunk(document(body, *comments, **more), BUDGET)


def main_row(body: str = "", *comments: Any, **more: Any) -> Chunk:
    return cut(body, *comments, **more).chunks[0]


def reasons(chunked: Chunked) -> set[str]:
    return {removed.reason for removed in chunked.removed}


def cleaned(given: Document) -> Thread:
    thread = read_thread(given.text, default_vocabulary())
    clean(thread)
    return thread


# Resolutions.


def test_the_resolution_rules_find_the_right_comment_in_nine_of_ten_labelled_threads() -> None:
    documents = sample_documents()
    wrong = []
    for label in labels():
        thread = cleaned(documents[f"{label.repo}/{label.number}"])
        resolution = find_resolution(thread)
        found = thread.comments.index(resolution.comment) + 1 if resolution.comment else resolution.kind
        if found != label.resolution:
            wrong.append((label, found))
    assert len(labels()) >= 60
    assert len(wrong) <= len(labels()) // 10, wrong


@pytest.mark.parametrize(
    ("comments", "resolving"),
    [
        ([comment("Set `minReplicas: 1`.", association="MEMBER")], 1),
        ([comment("Fixed in #123, released with 2.0.5.", association="MEMBER")], 1),
        ([comment("Could you share the log?", association="MEMBER")], 0),
        ([comment("Try to restart it."), comment("That did not help, it still fails.", by="reporter")], 0),
        (
            [comment("Maybe the disk is full?"), comment("The quota was it."), comment("solved", by="reporter")],
            2,
        ),
        ([comment("I solved it by pinning numpy to 1.26.", by="reporter")], 1),
        ([comment("Closing due to inactivity.", association="OWNER")], 0),
        ([comment("I'll look into it.", association="OWNER")], 0),
    ],
)
def test_who_says_what_decides_which_comment_resolves(comments: list[Any], resolving: int) -> None:
    thread = cleaned(document("It is broken", *comments))
    resolution = find_resolution(thread)
    found = thread.comments.index(resolution.comment) + 1 if resolution.comment else 0
    assert found == resolving
    assert resolution.resolved == bool(resolving)


def test_a_merged_pull_request_resolves_where_no_comment_does() -> None:
    row = main_row("It is broken", closed_by=[99])
    assert row.fields["resolved"] is True
    assert "Closed by merged pull request 99." in row.content_text


def test_a_duplicate_is_not_resolved_and_names_the_original() -> None:
    row = main_row("Broken", comment("Duplicate of #42", association="MEMBER"), state_reason="duplicate")
    assert row.fields["resolved"] is False
    assert "Closed as a duplicate of issue 42." in row.content_text


def test_a_thread_without_a_resolution_says_so() -> None:
    row = main_row("Broken", state="open", state_reason="", closed_at="")
    assert row.fields["resolved"] is False
    assert "No resolution was found in this thread." in row.content_text


# The unit.


def test_the_main_row_holds_title_problem_and_resolution_and_what_a_filter_needs() -> None:
    chunked = cut(
        "KFP 2.0.5 on Kubernetes 1.27: the pod crashes.",
        comment("Please upgrade, it is fixed in 2.1.0 (#123).", association="MEMBER", at="2024-05-03"),
    )
    (row,) = chunked.chunks
    assert row.title == "It fails"
    assert row.content_text == (
        "Problem:\nKFP 2.0.5 on Kubernetes 1.27: the pod crashes.\n\n"
        "Resolution (maintainer, 2024-05-03):\nPlease upgrade, it is fixed in 2.1.0 (#123)."
    )
    assert (row.document_id, row.unit_id, row.view) == ("kfp-issues:7", "kfp-issues:7", "")
    assert row.citation_url == "https://github.com/kubeflow/pipelines/issues/7"
    assert row.file_path == "issues/kubeflow/pipelines/7"
    assert row.product_area == ("pipelines",)
    assert row.version == ("2.0.5", "2.0")
    assert row.fields == {
        "issue_number": 7,
        "state": "closed",
        "state_reason": "completed",
        "labels": ("kind/bug",),
        "created_at": "2024-05-01T10:00:00Z",
        "closed_at": "2024-05-09T10:00:00Z",
        "resolved": True,
    }


def test_other_comments_that_say_something_are_rows_of_the_same_unit_headed_by_the_title() -> None:
    long = "I see this on our cluster as well, and the log of the controller says something about a lost lease. "
    chunked = cut("Broken", comment("Set `a: b`.", association="MEMBER"), comment(long * 3), comment("same here"))
    assert [row.view for row in chunked.chunks] == ["", "comment:2"]
    assert {row.unit_id for row in chunked.chunks} == {"kfp-issues:7"}
    assert chunked.chunks[1].citation_url.endswith("/issues/7#issuecomment-2")
    assert all(row.embedding_text.startswith("It fails\n") for row in chunked.chunks)
    assert "no_substance" in reasons(chunked)


def test_an_empty_issue_is_found_by_its_title() -> None:
    row = main_row("", title="Profiles vanish after an upgrade")
    assert "(no description)" in row.content_text
    assert "Profiles vanish" in row.search_text and "Profiles vanish" in row.embedding_text


def test_a_problem_that_is_too_long_goes_on_in_further_rows_and_loses_nothing() -> None:
    words = [f"sentence {number} tells what happened on machine {number * 3}." for number in range(300)]
    chunked = cut("\n".join(words), comment("Set `a: b`, then it works.", association="MEMBER"))
    assert [row.view for row in chunked.chunks][:3] == ["", "problem:2", "problem:3"]
    together = "\n".join(row.content_text for row in chunked.chunks)
    assert all(together.count(word) == 1 for word in words)
    assert chunked.counts["digested"] == 1


# Versions.


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("Kubeflow 1.9.1 on Kubernetes v1.30", ("1.9.1", "1.9")),
        ("- KFP version: 2.0.5", ("2.0.5", "2.0")),
        ("- Kubernetes version: v1.27.3", ()),
        ("kserve v0.11.2 with Istio 1.18", ("0.11.2", "0.11")),
        ("python 3.10, kfp 2.7.0", ("2.7.0", "2.7")),
        ("dial tcp 10.96.0.1:443 and 127.0.0.1", ()),
        ("image gcr.io/ml-pipeline/api-server:2.0.5", ()),
    ],
)
def test_versions_are_those_of_kubeflow_that_the_author_names(text: str, versions: tuple[str, ...]) -> None:
    assert named_versions(cleaned(document(text))) == versions


def test_versions_in_logs_and_by_others_are_not_the_threads_versions() -> None:
    given = document("It fails\n```\nkubeflow 1.2.3 started\n```", comment("Kubeflow 1.8 here, and it works"))
    assert named_versions(cleaned(given)) == ()


# Boilerplate.


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("<!-- tell us more -->", "html_comment"),
        ("[A clear and concise description of what the bug is.]", "template_prompt"),
        ("[Miscellaneous information that will assist in solving the issue.]", "template_prompt"),
        ("### Materials and Reference", "empty_heading"),
        ("**What did you expect to happen:**", "empty_heading"),
        ("* KFP SDK version: ", "empty_heading"),
        ("- OS (e.g. from `/etc/os-release`):", "empty_heading"),
        ("_No response_", "unanswered"),
        ("- [x] I have searched the existing issues", "checklist"),
        ("Impacted by this bug? Give it a 👍. We prioritise the issues with the most 👍.", "boilerplate"),
        ("Love this idea? Give it a 👍.", "boilerplate"),
        ("/kind bug", "slash_command"),
        ("/assign @somebody", "slash_command"),
        ("---", "rule"),
        ("Thanks in advance!", "signature"),
        ("Sent from my iPhone", "mail"),
        ("![image](https://user-images.example.org/1/x.png)", "image"),
        ("<details>", "markup"),
    ],
)
def test_boilerplate_is_removed_and_counted(line: str, rule: str) -> None:
    chunked = cut(f"The pod crashes.\n\n{line}\n")
    assert chunked.chunks[0].content_text.startswith("Problem:\nThe pod crashes.\n\n")
    assert line not in chunked.chunks[0].content_text
    assert chunked.counts[rule] >= 1 and rule in reasons(chunked)


@pytest.mark.parametrize(
    "line",
    [
        "### Steps",
        "- [ ] implement the API",
        "* KFP version: 2.0.5",
        "Thanks to the new release the log says more.",
        "kind: Experiment",
        "I ran this on AWS:",
    ],
)
def test_what_people_wrote_is_kept(line: str) -> None:
    row = main_row(f"{line}\nThen the pod crashes.")
    assert line.removeprefix("- [ ] ") in row.content_text


def test_boilerplate_inside_of_code_is_code() -> None:
    row = main_row("```\n/kind bug\n<!-- x -->\n---\n```")
    assert "/kind bug\n<!-- x -->\n---" in row.content_text


def test_quoted_replies_go_and_quoted_errors_stay() -> None:
    body = "The controller crashes\n> panic: index out of range"
    chunked = cut(
        body,
        comment("> The controller crashes\n\nSet `replicas: 1` and it goes away, because only one may run at a time."),
    )
    row = chunked.chunks[0]
    assert "panic: index out of range" in row.content_text
    assert row.content_text.count("The controller crashes") == 1
    assert "quoted_reply" in reasons(chunked)


@pytest.mark.parametrize(
    "said",
    [
        comment("Whatever", by="google-oss-prow[bot]"),
        comment("Whatever", by="k8s-ci-robot"),
        comment("Whatever", by="copilot", bot=True),
        comment("This issue has been automatically marked as stale because it has not had recent activity."),
    ],
)
def test_what_programs_say_is_removed_and_counted(said: Any) -> None:
    chunked = cut("Broken", said)
    assert len(chunked.chunks) == 1
    assert chunked.counts["bot"] >= 1


@pytest.mark.parametrize("said", ["+1", "same here", "any update?", "@someone any news?", "👍", "/close", "同问"])
def test_comments_without_substance_make_no_rows(said: str) -> None:
    assert len(cut("Broken", comment(said)).chunks) == 1


# Logs.


def log(lines: int, error_at: int) -> str:
    said = [f"2024-05-01T10:00:{n % 60:02d}Z INFO reconciling object {n} of the queue" for n in range(lines)]
    said[error_at] = "2024-05-01T10:00:00Z ERROR could not get lease kube-system/controller: etcdserver: timed out"
    return "\n".join(said)


@pytest.mark.parametrize("fence", ["```", ""], ids=["fenced", "bare"])
def test_long_logs_are_cut_to_the_errors_and_their_neighbourhood_and_the_cut_is_marked(fence: str) -> None:
    chunked = cut(f"It stops:\n{fence}\n{log(400, 200)}\n{fence}\nWhat now?")
    text = chunked.chunks[0].content_text
    assert "etcdserver: timed out" in text and "What now?" in text
    assert "object 199 " in text and "object 201 " in text and "object 150 " not in text
    assert "lines cut ...]" in text
    assert chunked.counts["log_cut"] > 380


def test_an_error_that_repeats_is_kept_once_and_the_last_different_ones_too() -> None:
    lines = [f"ERROR dial tcp 10.0.0.{n % 250}: connection refused, try {n}" for n in range(200)]
    row = main_row("\n".join(["```", *lines, "FATAL giving up: quota exceeded", "```"]))
    assert "giving up: quota exceeded" in row.content_text
    assert row.content_text.count("connection refused") <= 5


def test_a_one_line_log_keeps_its_beginning_and_its_error() -> None:
    row = main_row("```\n{" + "x" * 20_000 + " fatal: no space left on device " + "y" * 20_000 + "}\n```")
    assert "no space left on device" in row.content_text
    assert "characters cut" in row.content_text and len(row.content_text) < 2000


def test_short_code_is_kept_as_it_is() -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a"
    assert manifest in main_row(f"```yaml\n{manifest}\n```").content_text


# Sizes.


def check_rows(chunked: Chunked) -> None:
    for row in chunked.chunks:
        to_row(ISSUES, row)
        assert BUDGET.counter.count(row.embedding_text) <= BUDGET.tokens - 2
        assert len(row.content_text.encode()) <= 65_535 and len(row.search_text.encode()) <= 65_535


def test_two_thousand_comments_give_few_rows_within_their_limits() -> None:
    text = "Cluster {0} fails with error code {0} after the node pool {0} was upgraded today"
    said = [comment(text.format(number)) for number in range(2000)]
    chunked = cut("Broken", *said)
    check_rows(chunked)
    assert len(chunked.chunks) <= 30
    assert chunked.counts["beyond_limit"] > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        log(20_000, 9_999)[: 1 << 20],
        "x" * (1 << 20),
        "错" * (1 << 18),
        "error " * 170_000,
        "\n" * (1 << 20),
        "> " * 500_000,
        "<!--" * 250_000,
        "```\n" * 60_000,
        "- [ ] " * 150_000,
        "#" * 500_000,
        "**" * 500_000,
        "[" * 500_000 + "](" * 200_000,
        "a-" * 500_000,
        "0x" * 500_000,
        "1." * 500_000,
        "\U0001f600" * (1 << 18),
    ],
    ids=lambda body: repr(body[:8]),
)
def test_a_megabyte_of_anything_takes_bounded_memory_and_no_row_breaks_its_limits(body: str) -> None:
    given = document(body, comment(body[: 1 << 16], association="MEMBER"))
    tracemalloc.start()
    chunked = chunk(given, BUDGET)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    check_rows(chunked)
    assert len(chunked.chunks) < 160
    assert peak < 600 << 20


def test_a_document_that_is_not_a_thread_is_skipped_with_the_reason() -> None:
    for text in ("", "[]", "{}", '{"number": 1}', "null", '"text"', "{" * 5000):
        broken = Document("s:1", "s", "issue", "a/b", "", "issues/a/b/1", "", "", text)
        skipped = chunk(broken, BUDGET).skipped
        assert skipped is not None and skipped.reason == "unreadable thread"


def test_a_field_that_would_break_a_row_is_replaced() -> None:
    row = main_row("Broken", labels=["x" * 5000, "y"], state_reason="\x00odd", title="t" * 9000)
    assert to_row(ISSUES, row)["state_reason"] == ""
    assert len(row.title) == 2048


# Laws.

_LINES = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["```", "~~~", "<!--", "-->", "> quoted", "### Heading", "**Bold:**", "- item:", "/kind bug", "---", "", "  "]
        + ["2024-05-01T10:00:00Z ERROR failed", "On Monday, A wrote:", "thanks", "Fixed in #12", "KFP version: 2.0"]
    ),
)
_BODIES = st.lists(_LINES, max_size=40).map("\n".join)
_COMMENTS = st.lists(
    st.builds(
        comment,
        _BODIES,
        by=st.sampled_from(["reporter", "helper", "stale[bot]", ""]),
        association=st.sampled_from(["NONE", "MEMBER", "weird"]),
    ),
    max_size=6,
)


def rows_and_removed(chunked: Chunked) -> Iterator[tuple[int, int]]:
    for row in chunked.chunks:
        yield row.start_line, row.end_line
    for removed in chunked.removed:
        yield removed.start_line, removed.end_line


@settings(max_examples=60, deadline=None)
@given(_BODIES, _COMMENTS, st.sampled_from([64, 256, 384]))
def test_any_thread_gives_rows_within_limits_that_account_for_every_line(
    body: str, comments: list[Any], tokens: int
) -> None:
    given = document(body, *comments)
    budget = Budget(wordpiece_counter(), tokens)

    chunked = chunk(given, budget)

    count = len(read_thread(given.text, default_vocabulary()).lines)
    held = {line for start, end in rows_and_removed(chunked) for line in range(start, end + 1)}
    assert held == set(range(1, count + 1))
    spans = sorted((row.start_line, row.end_line) for row in chunked.chunks)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert chunked.chunks[0].view == ""
    assert len({row.id for row in chunked.chunks}) == len(chunked.chunks)
    for row in chunked.chunks:
        to_row(ISSUES, row)
        assert budget.counter.count(row.embedding_text) <= tokens
    assert chunk(given, budget) == chunked


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_a_title(title: str) -> None:
    check_rows(cut("Broken", title=title))
