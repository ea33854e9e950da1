"""Evidence as independent renderers read it.

Longer: ``RENDERED_TEXTS=1000000 python -m pytest tests/query/test_renderers.py``.
"""

from __future__ import annotations

import os
import random
import re

import pytest
from kubeflow_corpus.query.evidence import HEADER
from kubeflow_corpus.query.links import strip_links
from kubeflow_corpus.query.markup import defuse_labels, take_apart

from tests.query.renderers import followable, shown
from tests.query.test_evidence import builder, hit
from tests.query.test_links import ADVERSARIAL, KEPT

TEXTS = int(os.environ.get("RENDERED_TEXTS", "300"))
# Text by text what leaked once, and its relatives.
LEAKED = (
    "[more][c1]",
    "![i][c2]",
    '> [x](//evil.com/a\n> "t")',
    '> [x](javascript:alert(1)\n> "t")',
    "> [x](\n> //evil.com)",
    "> ![x](data:image/png;base64,AA\n> 't')",
    "[a\nb]: //evil.com\n\n[a b]",
    '[x]: //evil.com "t\nu"\n\n[x]',
    '[x]: //evil.com "a\\"b"\n\n[x]',
    "[^x]: //evil.com\n\n[^x]",
    "> - [x]: //evil.com\n\n[x]",
    *(f"<{scheme}:evil.com>" for scheme in ("https", "http", "ftp", "magnet", "itms-services", "skype", "callto")),
    "<ms-msdt:/id>",
    "<search-ms:query>",
    "<_x@evil.com> <1@evil.com>",
    '<object data="javascript:alert(1)"></object>',
    '<form action="javascript:alert(1)"></form>',
    f'[a](//evil.com "{"t" * 600}")',
    f"[a]({' ' * 40}//evil.com)",
    f"[a](//evil.com/{'x' * 3000})",
    f"[{'a' * 400}]: //evil.com\n\n[{'a' * 400}]",
    f"<img {'a ' * 1500}src=//evil.com/p.gif>",
    f"<img alt='{'t' * 3000}' src=//evil.com/p.gif>",
    "[a](//evil.com\\\n)",
    "see http:\\/evil.com/x now",
    'text <iframe " src=//evil.com>',
    "[b]: javascript:x\n\n[a][b]",
    "![i](x)",
    "x[a](//b)",
    "<img src=foo>",
    "<svg onload=alert(1)>",
    "<p onclick=\"location='//evil.com'\">x</p>",
    "<style>@import '//evil.com'</style>",
    "<script>alert(1)</script>",
    "<title><img src=x></title>",
    "//evil.com/x is an address to some",
    "www.//evil.com/x is one behind a dot",
    "<?php x ?><img src=a>",
    "<![CDATA[<img src=a>]]>",
    "<!doctype html><a href=x>",
    "<a\x0chref=//evil.com>x</a>",
    "</p/><img/src=//evil.com/a>",
    # A here-document whose name becomes an element: what follows, a tag too, would be its attributes.
    "<<EOF\n<img src=//evil.com/p.gif>",
    "<<EOF < src=//evil.com>",
    '<<EOF\n<form action="javascript:alert(1)"></form>',
    "<<EOF <<EOF\n<b <a href=//evil.com>",
    f"<<EOF\n<img alt='{'t' * 3000}' src=//evil.com/p.gif>",
)
LABELS = (
    "[c1]",
    "\\[c1\\]",
    "&#91;c1&#93;",
    "&#x5B;c1&#x5d;",
    "&lsqb;c1&rsqb;",
    "&amp;#91;c1&amp;#93;",
    "[**c1**]",
    "[`c1`]",
    "[_c1_]",
    "[c1, c2]",
    "[ c 1 ; 2]",
    "［c1］",
    "[c1][c2]",
    "[more][c1]",
    "\\[*c1*\\]",
)
PARTS = (
    *ADVERSARIAL,
    *LEAKED,
    *LABELS,
    *KEPT,
    *("<<EOF\n", "<<EOF", "<<IMG ", "onclick=", " x=/"),
    *"[]()<>!\\&\"'`*_:/#\n",
    *(
        "](",
        "]:",
        "![",
        "<a ",
        "<img ",
        "href=",
        "src=",
        "//evil.com",
        "javascript:",
        "http",
        ":",
        "//",
        "> ",
        "- ",
        "    ",
    ),
    *(
        "<!--",
        "-->",
        "&#",
        "&lt;",
        "&colon;",
        "%3a",
        "\u200b",
        "\n\n",
        "```",
        "c1",
        "evil.com",
        "www.",
        "@",
        "{",
        "}",
        "=",
    ),
)


def generated(seed: int) -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choice(PARTS) for _ in range(chosen.randrange(1, 7)))


@pytest.mark.parametrize("code", [False, True])
@pytest.mark.parametrize("text", [*LEAKED, *KEPT], ids=range(len(LEAKED) + len(KEPT)))
def test_no_renderer_finds_anything_to_follow_in_what_leaked_before(text: str, code: bool) -> None:
    clean = strip_links(text, code=code).text
    assert followable(clean) == [], clean


def test_no_renderer_finds_anything_to_follow_in_the_adversarial_forms() -> None:
    left = {text: found for text in ADVERSARIAL if (found := followable(strip_links(text).text))}
    assert not left


def test_no_renderer_finds_anything_to_follow_in_generated_texts() -> None:
    for seed in range(TEXTS):
        text = generated(seed)
        for code in (False, True):
            clean = strip_links(text, code=code).text
            assert followable(clean) == [], (seed, code, text, clean)


def test_markup_that_is_taken_apart_stays_so() -> None:
    for seed in range(TEXTS):
        once = take_apart(generated(seed))
        assert take_apart(once) == once


def test_no_fragment_completes_what_another_one_begins() -> None:
    """Hits whose texts are one text cut anywhere."""
    for text in ("cat <<EOF\nx onclick=alert(1) y>", "<b onclick=alert(1)>x</b>", "[a](//evil.com)", "<img src=//x>"):
        for cut in range(1, len(text)):
            block = builder().build([hit(text[:cut]), hit(text[cut:])], 500)
            assert followable(block.text) == [], (text[:cut], text[cut:])
            assert not re.search(r"<\w+\s[^>]*onclick", block.text), block.text


@pytest.mark.parametrize("text", LABELS)
@pytest.mark.parametrize("source_type", ["docs", "code"])
def test_no_text_can_show_a_label_of_ours(text: str, source_type: str) -> None:
    block = builder().build([hit(f"as {text} says and {text}", source_type=source_type)], 500)
    said = block.text.replace(HEADER, "").replace("[c1] ", "", 1)
    assert not re.search(
        r"[\[\uff3b]\s*c\s*\d", said.replace("\\", "").replace("*", "").replace("`", ""), re.IGNORECASE
    )
    assert not re.search(r"[\[\uff3b]\s*c\s*\d", shown(said), re.IGNORECASE)


def test_a_here_document_stays_as_it_is_where_it_cannot_get_attributes() -> None:
    kept = "kubectl apply -f - <<EOF\nkind: Trial\nspec: {}\nEOF"
    assert take_apart(kept) == kept
    for text in ("cat <<EOF\nx onclick=alert(1)\nEOF", "cat <<SCRIPT\nx\nSCRIPT", "cat <<EOF x=/a>"):
        assert "<<" not in take_apart(text).replace("<< ", "")


def test_a_label_that_stays_words_is_left_alone() -> None:
    for text in ("a[c] b[0]", "[cat 5]", "[case 1]", "[c++17]", "values[c1x]"):
        assert defuse_labels(text) == text
