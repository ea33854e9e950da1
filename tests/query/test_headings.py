"""Headings that meet a question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kubeflow_corpus.query.headings import HeadingScorer, heading_words, read_heading, stems
from kubeflow_corpus.query.intent import read
from kubeflow_corpus.query.ranking import Ranked, rank_by_texts
from kubeflow_corpus.query.tuning import Preferences
from kubeflow_corpus.vocabulary import Vocabulary

PREFERENCES = Preferences()
WORDS = Vocabulary(project="Orchard")


def bonuses(
    question: str, section: str, title: str = "Overview", path: str = "docs/hives/overview.md", **more: Any
) -> dict[str, float]:
    """What a section gets for a question."""
    fields: dict[str, Any] = {"title": title, "section_path": section, "file_path": path, "product_area": ["hives"]}
    fields |= more
    return HeadingScorer(read(question, WORDS)).bonuses(fields, PREFERENCES)


def opening(question: str, text: str, path: str = "docs/hives/overview.md") -> dict[str, float]:
    """What the beginning of a section's text gets for a question."""
    return HeadingScorer(read(question, WORDS)).opening(text, {"file_path": path}, PREFERENCES)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Installing the hives", "how do I install a hive"),
        ("Migrating queries", "migration of a query"),
        ("Setting quotas", "set a quota"),
        ("How to backup hives", "back up a hive"),
        ("Hive setup", "set up a hive"),
    ],
)
def test_words_meet_whatever_their_endings(left: str, right: str) -> None:
    assert stems(left) & stems(right) and len(stems(left) & stems(right)) >= len(stems(right)) - 1


@pytest.mark.parametrize(
    "heading", ["What is a hive?", "Configure swarm quotas", "6. Clean up", "Next steps", "__init__"]
)
def test_a_heading_asked_as_it_stands_gets_everything(heading: str) -> None:
    given = bonuses(heading, f"Hives > {heading}")

    assert given["heading_asked"] == PREFERENCES.heading_asked


def test_the_same_question_in_other_words_is_the_heading_too() -> None:
    assert "heading_asked" in bonuses("why should I use hives", "Why hives?")
    assert "heading_asked" not in bonuses("why should I use hives", "What are hives?")


def test_a_heading_with_more_or_fewer_words_gets_less() -> None:
    whole, more, fewer = (
        bonuses("swarm quotas", heading)["heading"]
        for heading in ("Swarm quotas", "Swarm quotas by namespace", "Quotas")
    )

    assert whole > more > fewer > 0
    assert "heading" not in bonuses("swarm quotas", "Storage")


def test_a_definition_is_wanted_of_the_subject_and_of_nothing_else() -> None:
    question = "what is a hive in Orchard"

    assert bonuses(question, "What is a hive?")["definition"] == PREFERENCES.definition
    assert "definition" not in bonuses(question, "What is a swarm?")
    # The page "Overview" of the folder of that name speaks about it.
    assert 0 < bonuses(question, "", title="Overview")["definition"] < PREFERENCES.definition
    assert "definition" not in bonuses(question, "", title="Overview", path="docs/swarms/overview.md")
    assert "definition" not in bonuses("how do I clean a hive", "What is a hive?")


def test_the_name_of_the_project_is_a_subject_where_it_is_the_only_one() -> None:
    assert bonuses("what is Orchard", "What is Orchard")["definition"] == PREFERENCES.definition
    assert "definition" not in bonuses("what is Orchard", "What is a hive")


def test_an_installation_is_wanted_of_the_subject() -> None:
    question = "how do I install hives"

    assert bonuses(question, "Install with Helm")["installation"] == PREFERENCES.installation
    assert bonuses(question, "Values", title="Installation")["installation"] == PREFERENCES.installation / 2
    assert "installation" not in bonuses("how do I install combs", "Install with Helm")
    # What has to be there before is not an installation.
    assert "installation" not in bonuses(question, "Hives have been installed", title="Tutorial")


def test_the_page_about_installing_is_the_one_that_names_nothing_else() -> None:
    question = "how do I install hives"
    page, section, other, elsewhere = (
        bonuses(question, heading, title=title, chunk_index=index, view="")
        for heading, title, index in (
            *(("", "Installation", 0), ("Install it", "Install Hives", 1)),
            *(("Install", "Comb plugins", 1), ("", "Hives", 0)),
        )
    )

    assert page["installation"] == section["installation"] == PREFERENCES.installation
    assert other["installation"] == PREFERENCES.installation / 2
    assert page["introduction"] == PREFERENCES.introduction
    # What a thing is does not say how it is installed.
    assert "introduction" not in elsewhere and "introduction" not in section


@pytest.mark.parametrize("heading", ["Why hives", "Use cases", "Motivation", "Key benefits", "When to use hives"])
def test_why_asks_what_a_thing_is_good_for(heading: str) -> None:
    assert bonuses("why use hives", heading)["definition"] > 0
    assert "definition" not in bonuses("why use combs", heading)
    assert "definition" not in bonuses("what is a hive", heading)


@pytest.mark.parametrize("heading", ["Why does a hive not start?", "Why is my hive empty?"])
def test_a_heading_that_asks_for_a_cause_is_not_a_motive(heading: str) -> None:
    assert "definition" not in bonuses("why use hives", heading)


def test_first_steps_are_wanted_by_who_wants_to_begin() -> None:
    question, first = "getting started with Orchard", "docs/get-started/drone.md"
    heading, start, rest, install = (
        bonuses(question, section, title="Send a drone", path=path, chunk_index=index, view="").get("installation", 0)
        for section, path, index in (
            *(("Quick start", "docs/hives.md", 4), ("Before", first, 0)),
            *(("Send it", first, 1), ("Install with Helm", "docs/hives.md", 1)),
        )
    )

    assert heading == start == PREFERENCES.installation
    assert rest == start / 2 and install == 0


@pytest.mark.parametrize(
    ("chunk_index", "view", "opens"), [(0, "", True), (1, "2", True), (2, "3", True), (1, "", False), (3, "2", False)]
)
def test_every_row_of_the_first_section_introduces_the_page(chunk_index: int, view: str, opens: bool) -> None:
    given = bonuses("what is a swarm", "", title="Swarms", chunk_index=chunk_index, view=view)

    assert given.get("introduction", 0) == (PREFERENCES.introduction if opens else 0)


def test_the_introduction_is_that_of_the_page_that_is_named_so() -> None:
    question = "what is a swarm"
    lead, headed, wider, other = (
        bonuses(question, section, title=title, chunk_index=0, view="").get("introduction", 0)
        for section, title in (("", "Swarms"), ("Two of them", "Swarms"), ("", "Swarm quotas"), ("", "Combs"))
    )

    assert lead > headed > 0 and lead > wider > 0 and other == 0
    # "Overview" is about what its folder is called.
    overview = bonuses("what is a hive", "", title="Overview", chunk_index=0, view="")
    assert overview["introduction"] == PREFERENCES.introduction
    # Who asks why knows what it is.
    assert "introduction" not in bonuses("why use a swarm", "", title="Swarms", chunk_index=0, view="")


def test_the_name_of_the_repository_is_in_all_of_its_pages() -> None:
    fields = {"title": "Hives of Meadow", "chunk_index": 0, "view": ""}

    assert bonuses("what is a hive", "", repo="meadow/website", **fields)["introduction"] == PREFERENCES.introduction
    assert bonuses("what is a hive", "", repo="acme/docs", **fields)["introduction"] < PREFERENCES.introduction


def test_a_reference_comes_later_unless_a_key_is_asked_for() -> None:
    path = "docs/reference/api.md"

    assert bonuses("how do I limit a swarm", "Limits", path=path)["reference"] < 0
    assert "reference" not in bonuses("spec.swarm.limit", "Limits", path=path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Documentation for hives.", "one_line"),
        ("A hive is a group of drones that share one queue and one budget.", "opening"),
        ("Hives (beta) are the units that the scheduler places, each on a node of its own.", "opening"),
        ("An overview\n\nA hive is a group of drones that share one queue and one budget.", "opening"),
        ("A drone of a hive is a worker that takes tasks from the queue of its hive.", ""),
        ("Run this to make one:\n\n```sh\nhive create\n```", ""),
    ],
)
def test_how_a_text_begins(text: str, reason: str) -> None:
    assert [*opening("what is a hive", text)] == ([reason] if reason else [])


def test_only_definitions_look_at_how_a_text_begins() -> None:
    text = "A hive is a group of drones that share one queue and one budget."

    assert opening("how do I clean a hive", text) == {}
    assert opening("why use a hive", text) == {}
    assert opening("what is a hive", text, "docs/reference/api.md") == {}


def test_no_bonus_is_more_than_what_is_announced() -> None:
    # `rank` leaves units unread that no bonus would lift: see `HeadingScorer.most`.
    questions = ("what is a hive", "why use hives", "how do I install hives", "swarm quotas", "spec.swarm.limit")
    for question in questions:
        scorer = HeadingScorer(read(question, WORDS))
        for section in (
            question,
            "",
            "What is a hive?",
            "Why hives",
            "Install hives",
            "Swarm quotas",
            "spec.swarm.limit",
        ):
            given = bonuses(question, section, title="Hives", chunk_index=0, view="")
            assert sum(given.values()) <= scorer.most(PREFERENCES)


def test_texts_change_the_order_and_say_why() -> None:
    ranked = Ranked(
        scores={"index": 0.9, "hive": 0.8, "other": 0.1},
        fused={"index": 0.9, "hive": 0.8, "other": 0.1},
        fields={unit: {"file_path": f"docs/{unit}.md"} for unit in ("index", "hive", "other")},
    )
    texts = {"index": "All about hives.", "hive": "A hive is a group of drones that share one queue and one budget."}

    order = rank_by_texts(ranked, texts, read("what is a hive", WORDS), PREFERENCES)

    assert [*order] == ["hive", "index"] and [*ranked.scores] == ["hive", "index", "other"]
    assert ranked.bonuses == {"index": {"one_line": -0.25}, "hive": {"opening": 0.2}}
    assert ranked.fused["index"] == 0.9


def test_a_heading_says_the_same_each_time() -> None:
    words = heading_words(WORDS)

    assert read_heading(words, "Hives", "A > B", "a/b.md") == replace(read_heading(words, "Hives", "A > B", "a/b.md"))


def test_headings_are_read_in_the_words_of_the_vocabulary() -> None:
    german = Vocabulary(project="Orchard", heading_defines=("was (?:ist|sind)\\b",))
    fields: dict[str, Any] = {"title": "Handbuch", "section_path": "Was ist ein Hive?", "file_path": "handbuch.md"}

    assert "definition" in HeadingScorer(read("what is hive", german)).bonuses(fields, PREFERENCES)
    assert "definition" not in HeadingScorer(read("what is hive", WORDS)).bonuses(fields, PREFERENCES)
    # What a vocabulary leaves out is that of the packaged one.
    assert heading_words(german).installs == heading_words().installs == heading_words(WORDS).installs
