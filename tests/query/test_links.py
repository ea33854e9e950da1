"""No link in any form survives; what only looks like one stays."""

from __future__ import annotations

import re
from html import unescape
from itertools import product
from unicodedata import normalize
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kubeflow_corpus.query.links import _NAMED, remove_hidden, strip_links

from tests.query.letters import LOOKALIKES, in_other_letters

ENTITIES = sorted(_NAMED)
ZERO = "\u200b"
_SEEN = re.compile(r"(?:https?|s?ftp)://|mailto:\S|www\d?\.\w|hack\.example|\]\(|\bhref\s*=|\bsrc\s*=", re.IGNORECASE)


def seen_by_a_reader(text: str) -> str:
    """A text as a lenient renderer or browser could read it."""
    for _ in range(3):
        text = unquote(unescape(text))
    text = re.sub(r"\\u00([2-7][0-9a-fA-F])|\\x([2-7][0-9a-fA-F])", lambda m: chr(int(m[1] or m[2], 16)), text)
    return normalize("NFKC", remove_hidden(re.sub(r"\\([/:.])", r"\1", text)))


TARGETS = (
    "https://hack.example/a?b=c#d",
    "http://hack.example",
    "HtTpS://hack.example/A",
    "ftp://hack.example/f",
    "www.hack.example/x",
    "mailto:a@hack.example",
    "&#104;ttps://hack.example",
    "&#x68;ttps&#58;&#47;&#47;hack.example",
    "https&colon;//hack.example",
    "https&colon;&sol;&sol;hack.example",
    "&amp;#104;ttps://hack.example",
    "https%3A%2F%2Fhack.example",
    "%68ttps://hack.example",
    "https%253A%252F%252Fhack.example",
    f"ht{ZERO}tps://hack.example",
    "https:\u2060//hack.example",
    "h\u00adttp://hack.example",
    "\uff48\uff54\uff54\uff50\uff53://hack.example",
    "https\uff1a\uff0f\uff0fhack.example",
    "https:\\/\\/hack.example\\/x",
    "https:\\\\hack.example",
    "http\\u003a\\u002f\\u002fhack.example",
    "https://user:secret@hack.example:8443/p",
    "https://hack.example/a_(b)_c",
    "WWW.hack.example",
    "www\uff0ehack.example",
    "www\u3002hack.example",
    "https://ha\u202eck.hack.example",
    "git+https://hack.example/r.git",
    "sftp://hack.example/x",
)
FRAMES = (
    "see {} for more",
    "<{}>",
    "[words]({})",
    '[words]({} "title")',
    "![picture]({})",
    "`{}`",
    "```\ncurl {}\n```",
    '<a href="{}">words</a>',
    "<a href='{}' title='t'>words</a>",
    "<img alt='x' src={}>",
    "[words][ref]\n\n[ref]: {}\n",
    "({})",
)
FORMS = [frame.format(target) for frame, target in product(FRAMES, TARGETS)]
OTHERS = (
    "[words](//hack.example/x)",
    "[words](<https://hack.example/a b>)",
    "[words](\nhttps://hack.example\n)",
    "[words]( https://hack.example 'title' )",
    "[![badge](https://hack.example/b.svg)](https://hack.example)",
    "[[nested](https://hack.example/a)](https://hack.example/b)",
    "[words](docs/page.md)",
    "[words](#anchor)",
    "[words](../up/page)",
    "[words](javascript:alert(1))",
    "[words](data:text/html;base64,aGFjaw==)",
    "[words][]\n\n[words]: https://hack.example",
    "[words]\n\n[words]: <https://hack.example> 'title'",
    "> [ref]: https://hack.example\n> [words][ref]",
    "- [ref]: https://hack.example",
    "[ref]:\n  https://hack.example\n",
    '<a href="//hack.example">words</a>',
    "<a\nhref\n=\n'https://hack.example'>words</a>",
    "<A HREF=https://hack.example>words</A>",
    '<a title="a>b" href="//hack.example">words</a>',
    "<iframe src='https://hack.example'></iframe>",
    "<script src=//hack.example/x.js></script>",
    "<form action='https://hack.example'><input></form>",
    "<video poster='//hack.example/p.png' src='//hack.example/v.mp4'></video>",
    "<img srcset='//hack.example/a.png 1x, //hack.example/b.png 2x'>",
    "<svg><use xlink:href='https://hack.example/s.svg'/></svg>",
    "<meta http-equiv=refresh content='0;url=https://hack.example'>",
    "<div style='background:url(//hack.example/b.png)'>x</div>",
    "<object data='https://hack.example'></object>",
    "<link rel=stylesheet href=//hack.example/s.css>",
    "<blockquote cite='https://hack.example'>q</blockquote>",
    "ht[tp](docs/x.md)s://hack.example",
    "ht<a href='/x'>tps</a>://hack.example",
    "ht<!-- hidden -->tps://hack.example",
    "<<a href='/x'>a href='https://hack.example'>",
    "https://hack.example\u3002next",
    '{"url":"https://hack.example","also":"https:\\/\\/hack.example"}',
    "| [cell](https://hack.example) | https://hack.example |",
    "http://localhost/?next=https://hack.example",
    "http://localhost@hack.example/",
    "http://127.0.0.1https://hack.example",
    "http://${HOST}www.hack.example",
    "http://a/http://hack.example",
    "k8s://https://hack.example:443",
    "view-source:https://hack.example",
    "url=https://hack.example;x",
    "https://hack.example,https://hack.example",
    "*https://hack.example*, _https://hack.example_",
    '"https://hack.example"',
    "'www.hack.example'",
    "<www.hack.example>",
    "<a href='//hack.example' and the tag stays open",
    "<a@hack.example>",
    "import x from 'https://hack.example/x.js'",
    "FROM scratch # https://hack.example",
    "http://hack.example:80http://hack.example",
    "ftp://ftp.hack.example/pub",
)
ADVERSARIAL = [*FORMS, *OTHERS]
# Written with percent signs or a ligature in the place of a host, nothing is left to check by that host's name.
KEPT = (
    "livenessProbe: httpGet: path: /healthz",
    "apiVersion: trainer.kubeflow.org/v1alpha1",
    "serving.kserve.io/v1beta1, kind InferenceService",
    "storageUri: s3://bucket/model",
    "gs://kfserving-examples/models/sklearn/1.0",
    "pvc://claim/path hf://meta-llama/model minio://mlpipeline/v2",
    "oci://quay.io/my-org/my-model:v1",
    "image: ghcr.io/kubeflow/katib/file-metrics-collector:latest",
    "ptr.To[int32](1) and handlers[name](event)",
    "matrix[i][j] = values[k]",
    "map[string]interface{} and []byte(text)",
    "if a < b && c > d",
    "List<String> and Map<K, V>",
    "kubectl get pods -n kubeflow -o jsonpath='{.items[0].metadata.name}'",
    "httpx, https and httpbin are names; http: is a key",
    "([\\w|-]+)\\s*=\\s*([+-]?\\d*(\\.\\d+)?([Ee][+-]?\\d+)?)",
    "names match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "100% of 5 & 6 at 50%",
    "path C:\\Users\\x and \\d+",
    "- [ ] open and - [x] done",
    "a[0] and [c1] and [note]",
    "print(f'{x}') and $(POD_NAME)",
    "someone@example.org is an address in prose",
    "grpc://service:8033",
)


def test_there_are_at_least_200_adversarial_forms() -> None:
    assert len(set(ADVERSARIAL)) >= 200


@pytest.mark.parametrize("code", [False, True])
def test_no_adversarial_form_leaves_a_link(code: bool) -> None:
    left = {}
    for form in ADVERSARIAL:
        text = strip_links(form, code=code).text
        if _SEEN.search(text) or _SEEN.search(seen_by_a_reader(text)):
            left[form] = text
    # In a program `[words](name)` may be a call; only addresses are targets there.
    assert not left


def test_words_of_a_link_stay() -> None:
    assert strip_links("[the words](https://x.example/y) stay").text == "the words stay"
    assert strip_links("<a href='https://x.example'>the words</a> stay").text == "the words stay"
    assert strip_links("![the picture](a.png)").text == "the picture"
    assert strip_links("see [a][1] and [b][2]\n\n[1]: https://x.example\n[2]: /y 'T'\n").text.strip() == "see a and b"


@pytest.mark.parametrize("text", KEPT)
@pytest.mark.parametrize("code", [False, True])
def test_what_is_not_a_link_stays(text: str, code: bool) -> None:
    assert strip_links(text, code=code).text == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("curl http://localhost:8080/v2/health/ready", "curl localhost:8080/v2/health/ready"),
        (
            "http://${INGRESS_HOST}:${INGRESS_PORT}/v1/models/$M:predict",
            "${INGRESS_HOST}:${INGRESS_PORT}/v1/models/$M:predict",
        ),
        ("http://ml-pipeline.kubeflow.svc.cluster.local:8888", "ml-pipeline.kubeflow.svc.cluster.local:8888"),
        ("http://minio-service:9000", "minio-service:9000"),
        ("must start with http:// or https://", "must start with http or https"),
    ],
)
def test_an_address_inside_a_cluster_is_an_answer_and_loses_its_scheme(text: str, kept: str) -> None:
    stripped = strip_links(text)
    assert stripped.text == kept
    assert stripped.links == ()


def test_links_are_kept_for_the_citation_absolute_and_once() -> None:
    text = "[a](../b.md) https://x.example/Y. <https://x.example/Y> www.z.example [s](javascript:x) a <m@z.example>"
    assert strip_links(text, base="https://docs.example/p/q").links == (
        "https://docs.example/b.md",
        "https://x.example/Y",
        "https://www.z.example",
        "mailto:m@z.example",
    )  # fmt: skip


FRAGMENTS = st.sampled_from(
    [*TARGETS, *FRAMES, *OTHERS, *KEPT, "](", "[", "]", "(", ")", "<", ">", "<a ", "href=", "://",
     "http", "s:", "//", "www",
     ".",
     "mailto:", "&#", "58;", "%3A", "\\", "!", "]: ", "\n", " ", '"', "'", "-->", "<!--", ZERO,
     "{link}", "localhost", "${X}", "@"]
)  # fmt: skip


@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join), st.booleans())
@example("ht[tp](x)://evil.example", False)
@example("[a]http://x.example(b)", False)
@example("<http://a<http://b>>", False)
def test_over_any_text_no_link_is_left_and_stripping_twice_is_stripping_once(text: str, code: bool) -> None:
    once = strip_links(text, code=code).text
    assert not re.search(r"https?://|ftp://|mailto:\S|www\d{0,3}\.\w", normalize("NFKC", once), re.IGNORECASE)
    assert strip_links(once, code=code).text == once


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["[", "](", "<a ", '<a "', "http://", "[a](", "[[[[a](b)](c)](d)](e)]", '](x "', "&#", "%", "<!--", "[a]: ", "> > ",
     "((((",
     "<a href='", "www.", "ht[tp](x)", "\\", "[a](b", "${", "http://$", "http://<", "mailto:",
     "[x][y]", "<a b=\"<a c='",
     "[r]: x\n[r][r]"],
)  # fmt: skip
def test_a_hostile_megabyte_comes_to_an_end(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert len(strip_links(text).text) <= len(text) * 2


@given(
    st.lists(
        st.one_of(
            in_other_letters(st.sampled_from(ENTITIES)).map(lambda name: f"&{name};"),
            in_other_letters(st.sampled_from(["https://hack.example", "mailto:a@b.example", "<javascript:x>"])),
            in_other_letters(st.sampled_from(["\\x68", "%68ttp", "&#x68;", "<a href=x>", "[a](docs/x.md)"])),
            st.sampled_from([" ", "amp;", "//", "\n"]),
        ),
        max_size=8,
    ).map("".join)
)
def test_reads_names_in_letters_of_any_case_and_kind(text: str) -> None:
    once = strip_links(text).text

    assert strip_links(once).text == once


@pytest.mark.parametrize("name", ENTITIES)
def test_takes_a_name_for_an_entity_in_plain_letters_only(name: str) -> None:
    for place, letter in enumerate(name):
        for other in LOOKALIKES[letter]:
            if not other.isascii():
                text = f"&{name[:place]}{other}{name[place + 1 :]};"
                assert strip_links(text).text == remove_hidden(text)
