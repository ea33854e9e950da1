import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.docs import markdown
from kubeflow_corpus.sites.anchors import Anchor, GithubAnchors, GoldmarkAnchors, HeadingSource

from tests.chunking.doc_samples import budget, page

# Worked out by hand from hugo's markup/goldmark/autoid.go (the cases of its own test among them) and goldmark's
# parser/atx_heading.go: letters, digits and underscores stay, spaces and hyphens become hyphens, of the source line.
HUGO = [
    ("God is good: 神真美好", "god-is-good-神真美好"),
    ("Question?", "question"),
    ("1+2=3", "123"),
    ('Special !"#$%&(parens)=?´* chars', "special-parens-chars"),
    ("Resumé", "resumé"),
    ("Multiple--Hyphens", "multiple--hyphens"),
    ("Trailing hyphen-", "trailing-hyphen-"),
    ("Many   spaces  here", "many---spaces--here"),
    ("Forward/slash", "forwardslash"),
    ("Under_score", "under_score"),
    ("Tab\tSpace", "tabspace"),
    ("Trailing Space ", "trailing-space"),
    ("[`prow`](https://github.com/kubernetes-sigs/prow)", "prowhttpsgithubcomkubernetes-sigsprow"),
    ("**Example:** Using `dsl.Collected`", "example-using-dslcollected"),
    ("Tom &amp; Jerry", "tom-amp-jerry"),
    (":rocket: Launch 🚀", "rocket-launch-"),
    ("!!!", "heading"),
]
# From github-slugger's index.js and docusaurus' remark/headings: the text that a reader sees, lowered; everything but
# letters, marks, digits, underscores, hyphens and spaces goes; each space becomes a hyphen.
DOCUSAURUS = [
    ("🎤 Speaking & Advocacy", "-speaking--advocacy"),
    ("🗣\ufe0f Join Our Discussions", "\ufe0f-join-our-discussions"),
    ("HuggingFace Hub (hf://)", "huggingface-hub-hf"),
    ("Why C++ / Go?", "why-c--go"),
    ("binary_data_size", "binary_data_size"),
    ("Number 32", "number-32"),
    ("Привет, Мир", "привет-мир"),
    ("Half ½ and ⓐ", "half--and-ⓐ"),
]


def hugo(*raws: str) -> list[str]:
    anchors = GoldmarkAnchors()
    return [anchors.next(HeadingSource(raw, raw)).id for raw in raws]


def docusaurus(*texts: str) -> list[str]:
    anchors = GithubAnchors()
    return [anchors.next(HeadingSource(text, text)).id for text in texts]


@pytest.mark.parametrize(("raw", "anchor"), HUGO)
def test_hugo_slugs_the_source_of_a_heading(raw: str, anchor: str) -> None:
    assert hugo(raw) == [anchor]


@pytest.mark.parametrize(("text", "anchor"), DOCUSAURUS)
def test_docusaurus_slugs_what_a_reader_sees(text: str, anchor: str) -> None:
    assert docusaurus(text) == [anchor]


def test_both_number_duplicates_from_one() -> None:
    assert hugo("A", "A", "A") == docusaurus("A", "A", "A") == ["a", "a-1", "a-2"]


def test_a_number_that_a_heading_has_taken_is_not_given_twice() -> None:
    assert hugo("A", "A-1", "A") == ["a", "a-1", "a-2"]
    assert docusaurus("A", "A-1", "A") == ["a", "a-1", "a-2"]


def test_hugo_reads_an_explicit_id_and_keeps_it_from_later_headings() -> None:
    assert hugo("Set up {#go}", "Go", 'Run {.wide id="run" data-x=1}') == ["go", "go-1", "run"]


def test_hugo_drops_classes_from_an_automatic_id_and_keeps_other_braces() -> None:
    assert hugo("Set up {.wide}", "The {placeholder}") == ["set-up", "the-placeholder"]


def test_docusaurus_explicit_ids_do_not_count_as_taken() -> None:
    assert docusaurus("Set up {#go}", "Go", "Go") == ["go", "go", "go-1"]


def test_an_explicit_id_is_not_part_of_the_text() -> None:
    assert GithubAnchors().next(HeadingSource("", "Set up {#go}")) == Anchor("go", "Set up")
    assert GoldmarkAnchors().next(HeadingSource("Set up {#go}", "Set up {#go}")) == Anchor("go", "Set up")


# What goldmark and docusaurus read at the end of a heading, as patterns: exact, and slow on a long run of blanks.
GOLDMARK = re.compile(r"\s*(?<!\\)\{([^{}]*)\}\s*$")
REMARK = re.compile(r"\s*\{#([^{}\n]{1,500})\}$")
ENDINGS = st.tuples(
    st.text("ab #.{}\\ \t\xa0=", max_size=12), st.sampled_from(["", "{#a}", " {.b}", "\\{#a}", "{#a b} ", "{}", "{#}"])
).map("".join)


@settings(deadline=None, max_examples=400)
@given(heading=ENDINGS)
def test_braces_are_found_from_the_end_as_the_generators_find_them(heading: str) -> None:
    text = GoldmarkAnchors().next(HeadingSource(heading, heading)).text
    taken = GOLDMARK.search(heading)
    names = taken is not None and re.search(r"(?:^|[\s,])(?:#[^\s#.={},\"']|id=)", taken[1])
    assert text == (GOLDMARK.sub("", heading) if taken and (names or taken[1].lstrip().startswith(".")) else heading)
    found = REMARK.search(heading)
    anchor = GithubAnchors().next(HeadingSource(heading, heading))
    assert anchor.text == (heading[: found.start()] if found else heading)
    assert found is None or anchor.id == found[1]


@pytest.mark.parametrize(
    ("raw", "old", "new"),
    [
        ("A -- b --- c ... d", "a----b-----c--d", "a--b--c--d"),
        ("[Link](https://x.test/y) after", "linkhttpsxtesty-after", "link-after"),
        ("A <b>html</b> tag", "a-bhtmlb-tag", "a-html-tag"),
        ("![alt](a.png) z", "altapng-z", "alt-z"),
        ("https://bare.link/x q", "httpsbarelinkx-q", "q"),
        ("<https://auto.link> q", "httpsautolink-q", "q"),
        ("`--flag` -- x", "--flag----x", "--flag--x"),
        ("snake_case __init__", "snake_case-__init__", "snake_case-init"),
        ("What's new", "whats-new", "whats-new"),
        ("Call {#v1.2-notes}", "v1.2-notes", "v1.2-notes"),
        ("Call {#Client.__call__ .c}", "Client.__call__", "Client.__call__"),
    ],
)
def test_ids_of_hugo_before_and_since_0_144(raw: str, old: str, new: str) -> None:
    # The new ones are those of Hugo 0.147.9 and 0.168.0, which agree.
    for version, wanted in (("0.124.1", old), ("0.147.9", new)):
        document = page(f"## {raw}\n\nText of the section.\n", site={"params": {"hugo_version": version}})
        row = markdown.chunk(document, budget()).chunks[0]
        assert row.citation_url.partition("#")[2] == wanted


# Built with Hugo 0.147.9 and 0.168.0, which agree.
PIECES = [
    ("P1 **a 'b' c** end", "p1-a--end"),
    ("P2 **a_b c** end", "p2-a_-end"),
    ("P3 [a *b* c](x) end", "p3-a--end"),
    ("P4 **a `c` d** end", "p4-a--end"),
    ("P5 ***x y*** end", "p5-x-y-end"),
    ("P6 **[l m](u) n** end", "p6-l-m-end"),
    ("P7 ![alt *b* c](u) end", "p7-alt--end"),
    ("P8 **don't do** end", "p8-don-end"),
    ("P9 **a & b ! c** end", "p9-a--b--c-end"),
    ("P10 ~~a *b* c~~ end", "p10-a--end"),
    ("P11 **`code` d** end", "p11-code-end"),
    ("P12 `a` b_c_d 'e'", "p12-a-b_c_d-e"),
    ("P13 **a -- b ... c** end", "p13-a--end"),
    ("P14 **a <b>h</b> d** end", "p14-a--end"),
    ("P15 **a [b] c d** end", "p15-a--end"),
    ("P16 **create_component_from_func and func_to_container_op support**", "p16-create_"),
    ('P17 **a (b) c: d, e. f? "g" h** end', "p17-a-b-c-d-e-f--end"),
]


@pytest.mark.parametrize(("raw", "wanted"), PIECES)
def test_of_emphasis_and_links_only_the_first_piece_is_in_an_id_of_newer_hugo(raw: str, wanted: str) -> None:
    assert GoldmarkAnchors(from_text=True).next(HeadingSource(raw, raw)).id == wanted
