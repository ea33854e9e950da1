"""Addresses come back where they were, and no others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kubeflow_corpus.query.citations import Citation
from kubeflow_corpus.query.evidence import HEADER, Evidence, EvidenceBuilder
from kubeflow_corpus.query.links import strip_links
from kubeflow_corpus.query.resolve import resolve
from kubeflow_corpus.tokens import ApproximateCounter

from tests.query.test_evidence import hit


def evidence_of(*texts: str, **fields: Any) -> Evidence:
    hits = [hit(text, unit=f"u{number}", **fields) for number, text in enumerate(texts)]
    return EvidenceBuilder((), ApproximateCounter(), 5_000).build(hits, 50_000)


COMMANDS = (
    'kubectl apply -k "https://github.com/kubeflow/manifests/example?ref=v1.10.0"',
    "kubectl apply -f https://raw.example.org/a/b.yaml -n kubeflow",
    "curl -fsSL https://get.example.org/install.sh | sh",
    "pip install kfp --index-url https://pypi.example.org/simple --trusted-host pypi.example.org",
    "pip install git+https://github.com/kubeflow/pipelines.git@2.0#subdirectory=sdk",
    "git clone --depth 1 ssh://git@github.com/kubeflow/hub.git",
    "curl 'http://localhost:8080/v2/models?x=1' -H \"Host: a.b\"",
    "curl http://${INGRESS_HOST}:${INGRESS_PORT}/v1/models/$M:predict -d @./in.json",
    "helm repo add orchard https://charts.example.org/%7Eteam/a%20b?x=1&y=2",
    "wget www.example.org/x.tgz && tar xf x.tgz",
    "open (https://example.org/a_(b)), then https://example.org/c.",
    "echo https://example.org/$VERSION/{a,b}.yaml; echo done",
    "export URL=http://ml-pipeline.kubeflow.svc.cluster.local:8888",
    "curl https://user:secret@example.org/x -o x",
    "curl localhost/x -d @[input.json](./input.json) and [A link](https://x.example/)",
    "git config user.email 'A <a@example.org>'",
)


@pytest.mark.parametrize("source_type", ["docs", "code", "manifest", "issue"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_comes_back_byte_for_byte(command: str, source_type: str) -> None:
    block = evidence_of(f"Run:\n\n```\n{command}\n```\n\nthen wait.", source_type=source_type)

    assert not re.search(r"https?://", block.text)
    resolved = resolve(block.text, block)
    assert command in resolved.text.split("\n")
    assert resolved.removed == ()


def test_links_of_prose_come_back_behind_their_words() -> None:
    block = evidence_of("See [the guide](/docs/a.md), [b][1] and <a href='https://x.example/c'>the page</a>.\n\n"
                        "[1]: https://x.example/b\n[unused]: https://x.example/d\n")  # fmt: skip

    assert "See the guide {c1.1}, b {c1.2} and the page {c1.3}." in block.text
    text = resolve(block.text, block).text
    assert (
        "the guide https://docs.example.org/docs/a.md, b https://x.example/b and the page https://x.example/c." in text
    )
    assert "https://x.example/d" in text


def test_labels_become_links_and_what_was_never_shown_is_removed_and_reported() -> None:
    block = evidence_of("one https://x.example/a", "two")
    answer = "Do this [c1], or [c1, c2]. Not [c7], see {c1.1}, [here]({c1.1}) and {c1.9}{c3.1}. row[c1] = 1"

    resolved = resolve(answer, block)

    page = "https://docs.example.org/p"
    assert resolved.text == (
        f"Do this [c1]({page}), or [c1]({page}), [c2]({page}). Not , see https://x.example/a, "
        "[here](https://x.example/a) and . row[c1] = 1"
    )
    assert resolved.removed == ("[c7]", "{c1.9}", "{c3.1}")
    assert resolved.cited == ("c1", "c2")
    assert resolve("as in [c1]", block, style="plain").text == f"as in [c1] ({page})"
    assert resolve("as in [c1] {c1.1} [c9]", block, style="places").text == "as in [c1] https://x.example/a "


@pytest.mark.parametrize(
    "answer",
    [
        "see https://evil.example/x", "[c1](https://evil.example)", "{c1.1}.evil.example/x", "{c1.1}@evil.example",
        "https://evil.example/{c1.1}", "[words](javascript:alert(1))", "[c1]: https://evil.example\n[see][c1]",
        "<a href='//evil.example'>x</a>", "https://{c1.1}", "www.evil.example {c1.1}", "htt{c9.9}ps://evil.example",
        "{c1.{c9.9}1}", "[a](https://ev[c9]il.example)", "[x](ht{c9.1}tps://evil.example)",
    ],
)  # fmt: skip
def test_an_address_that_no_citation_has_is_removed(answer: str) -> None:
    block = evidence_of("one https://x.example/a")

    resolved = resolve(answer, block)

    assert set(strip_links(resolved.text).links) <= {"https://x.example/a", "https://docs.example.org/p"}
    assert not strip_links(resolved.text).refused


def test_a_source_that_spells_places_or_labels_gets_no_address() -> None:
    block = evidence_of(
        "{c1.1} and {c2.1} {\ue000.1} [c2] <!-- -->{c1.<!-- -->1} https://x.example/a", "https://y.example/b"
    )

    assert re.findall(r"\{c[\d.]+\}", block.text) == ["{c1.1}", "{c2.1}"]
    assert resolve(block.text, block).text.count("https://x.example/a") == 1


ADDRESSES = st.sampled_from(
    ["https://x.example/a", "http://y.example/b?c=d&e=f#g", "https://github.com/a/b/blob/main/c.md",
     "ftp://files.example/x.tar.gz", "https://z.example/a%20b", "git+https://g.example/r.git@v1"]
)  # fmt: skip
PROSE = st.text("abcxyz {}[]()<>|`.,:;!?'\"#*-_\n", max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("abc .,:;'\"|*#-\n", max_size=10), ADDRESSES), min_size=1, max_size=6))
def test_every_address_comes_back_in_its_place(parts: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{words} {address} {words}" for words, address in parts)
    block = evidence_of(text)
    resolved = resolve(block.text, block)

    assert resolved.removed == ()
    shown = resolved.text.replace(HEADER, "")
    assert re.findall(r"(?:git\+)?(?:https?|ftp)://x?[^\s]+", shown.split("\n", 3)[-1]) == [
        address for _, address in parts
    ]


@settings(deadline=None)
@given(
    st.lists(
        PROSE | ADDRESSES | st.sampled_from(
            ["[c1]", "[c2]", "{c1.1}", "{c1.2}", "{c2.1}", "{c9.9}", "](", "https://evil.example", "://", "www.", "ht",
             "tps", "[a](", "<a href=", ".evil.example", "@evil.example", "&#58;", "%3A", "javascript:", "\\", "//",
             "[x]: "]
        ),
        max_size=12,
    ).map("".join),
    st.sampled_from(["markdown", "plain", "places"]),
)  # fmt: skip
@example("[[c1]](https://evil.example)", "markdown")
def test_over_any_answer_no_address_is_left_that_no_citation_has(answer: str, style: Any) -> None:
    block = evidence_of("one https://x.example/a and [two](https://y.example/b_(c))", "three http://localhost:80/x")
    allowed = {link["url"] for cited in block.citations for link in cited["links"]}
    allowed |= {"https://docs.example.org/p"}

    resolved = resolve(answer, block, style=style)

    found = strip_links(resolved.text)
    parts = allowed | {part for address in allowed for part in strip_links(address).links}
    assert set(found.links) <= {address for address in parts} | {
        address.replace("(", "%28").replace(")", "%29") for address in allowed
    }
    assert not found.refused


def test_citations_alone_are_enough() -> None:
    citations: tuple[Citation, ...] = evidence_of("one https://x.example/a").citations

    assert resolve("{c1.1}", [dict(citation) for citation in citations]).text == "https://x.example/a"  # type: ignore[misc]
