from textwrap import dedent

import pytest
from kubeflow_corpus.chunking.compose import SPECIAL_TOKENS
from kubeflow_corpus.chunking.docs.markdown import chunk
from kubeflow_corpus.records import Chunked
from kubeflow_corpus.tokens import wordpiece_counter

from tests.chunking.doc_samples import budget, needs_real_pages, page, partition_problem, real_pages

LONG = "This sentence fills a section, so that nothing joins it to what stands before or behind it in the page. " * 3


def cut(text: str, generator: str = "hugo", tokens: int = 256, **kwargs: object) -> Chunked:
    document = page(dedent(text), generator, **kwargs)  # type: ignore[arg-type]
    chunked = chunk(document, budget(tokens))
    assert partition_problem(document, chunked) == ""
    return chunked


def only(text: str, generator: str = "hugo", **kwargs: object) -> str:
    (row,) = cut(text, generator, **kwargs).chunks
    return row.content_text


def places(chunked: Chunked) -> list[tuple[str, str]]:
    return [(row.section_path, row.unit_id.partition("#")[2]) for row in chunked.chunks]


# Sections


def test_a_section_is_a_unit_with_breadcrumb_anchor_and_address() -> None:
    text = f"+++\ntitle = 'T'\n+++\n{LONG}\n## A\n{LONG}\n### B {{#bee}}\n{LONG}\n## A\n{LONG}\n"
    chunked = cut(text)
    assert places(chunked) == [("", ""), ("A", "a"), ("A > B", "bee"), ("A", "a-1")]
    assert [row.citation_url for row in chunked.chunks] == [
        "https://www.kubeflow.org/docs/page/",
        "https://www.kubeflow.org/docs/page/#a",
        "https://www.kubeflow.org/docs/page/#bee",
        "https://www.kubeflow.org/docs/page/#a-1",
    ]
    assert {row.title for row in chunked.chunks} == {"T"}


def test_the_embedding_text_starts_with_title_and_breadcrumb() -> None:
    row = cut(f"+++\ntitle = 'T'\n+++\n## A\n### B\n{LONG}").chunks[0]
    assert row.embedding_text.startswith("T > A > B\nThis sentence")
    assert row.search_text.startswith("T\nT\nA > B\nThis sentence")


def test_a_first_heading_is_the_title_where_front_matter_gives_none_or_the_same() -> None:
    assert places(cut(f"# Page\n{LONG}\n## A\n{LONG}")) == [("", ""), ("A", "a")]
    assert places(cut(f"---\ntitle: Page\n---\n# Page\n{LONG}")) == [("", "")]
    assert places(cut(f"---\ntitle: Other\n---\n# Page\n{LONG}")) == [("Page", "page")]


def test_setext_headings_are_headings() -> None:
    assert places(cut(f"{LONG}\n\nOne\n===\n{LONG}\n\nTwo\n---\n{LONG}\n")) == [
        ("", ""),
        ("One", "one"),
        ("One > Two", "two"),
    ]


def test_rows_of_an_html_table_get_the_lines_on_which_they_stand() -> None:
    cell = "<td>a cell of as many words as fill a whole row of the index by itself alone</td>"
    table = f"<table><tr>{cell}</tr><tr>{cell}</tr>\n<tr>{cell}</tr><tr>{cell}</tr>\n<tr>{cell}</tr></table>"
    rows = cut(f"{table}\n", tokens=32).chunks
    assert [(row.start_line, row.end_line) for row in rows] == [(1, 1), (1, 1), (2, 2), (2, 2), (3, 3)]


def test_headings_inside_fences_comments_and_quotes_are_none() -> None:
    text = "## A\n```bash\n# no heading\n```\n<!--\n## none either\n-->\n> ## quoted\n\n~~~\n## nor this\n~~~\n"
    assert places(cut(text + LONG)) == [("A", "a")]


def test_a_heading_in_a_quote_takes_its_number_all_the_same() -> None:
    assert [anchor for _, anchor in places(cut(f"> # A\n\n## A\n{LONG}"))][-1] == "a-1"


@pytest.mark.parametrize("silent", ["##", "## <!-- c -->", "## ![](a.png)", "## &nbsp;", "## {{< none >}}", "> ##"])
@pytest.mark.parametrize("words", ["y", LONG])
def test_what_stands_under_a_heading_that_shows_no_text_goes_on_with_the_section_above(silent: str, words: str) -> None:
    (row,) = cut(f"## A\nx\n\n{silent}\n\n{words}\n").chunks
    assert (row.section_path, row.content_text, row.start_line, row.end_line) == ("A", f"x\n\n{words.strip()}", 1, 6)


@pytest.mark.parametrize("silent", ["#", "> ##", "- ##", "|  |\n|--|"])
def test_a_page_that_shows_nothing_has_no_rows(silent: str) -> None:
    skipped = cut(f"{silent}\n").skipped
    assert skipped is not None and skipped.reason == "no_text"


def test_a_heading_that_shows_no_text_is_not_the_title_of_a_page() -> None:
    (row,) = cut(f"# ![](logo.png)\n\n# Page\n{LONG}").chunks
    assert (row.title, row.section_path) == ("Page", "")


def test_a_heading_without_text_goes_with_the_section_below_it_or_is_counted() -> None:
    chunked = cut(f"## A\n### B\n{LONG}\n## C\n")
    (row,) = chunked.chunks
    assert (row.section_path, row.start_line) == ("A > B", 1)
    assert [(gap.reason, gap.start_line) for gap in chunked.removed] == [("heading_without_text", 4)]


def test_a_tiny_section_joins_its_neighbour_under_the_same_parent_and_keeps_its_anchor() -> None:
    chunked = cut(f"## A\nTiny.\n## B\n{LONG}\n## C\n{LONG}\n### D\nTiny too.\n")
    assert places(chunked) == [("A", "a"), ("C", "c")]
    assert "**B**" in chunked.chunks[0].content_text
    assert "**D**\n\nTiny too." in chunked.chunks[1].content_text


def test_a_tiny_section_never_joins_one_under_another_parent() -> None:
    chunked = cut(f"## A\n{LONG}\n### B\n{LONG}\n## C\n{LONG}\n### D\nTiny.\n### E\n{LONG}\n")
    assert places(chunked) == [("A", "a"), ("A > B", "b"), ("C", "c"), ("C > D", "d")]


def test_the_description_introduces_the_first_section() -> None:
    text = f"+++\ntitle = 'T'\ndescription = 'What it is for'\n+++\n## A\n{LONG}\n## B\n{LONG}"
    first, second = cut(text).chunks
    assert first.content_text.startswith("What it is for\n\nThis sentence")
    assert "What it is for" not in second.content_text


def test_a_page_of_a_description_is_found_and_one_of_a_title_is_counted() -> None:
    assert only("+++\ntitle = 'T'\ndescription = 'About'\n+++\n") == "About"
    assert [cut(text).skipped.reason for text in ("+++\ntitle = 'T'\n+++\n", "", " \n\n")] == [
        "no_text",
        "empty",
        "empty",
    ]  # type: ignore[union-attr]


# Rows


def test_no_row_is_longer_than_the_model_reads() -> None:
    text = "## A\n" + "\n\n".join(f"Paragraph {number}. {LONG}" for number in range(20)) + "\n"
    for tokens in (64, 128, 256):
        rows = cut(text, tokens=tokens).chunks
        counts = wordpiece_counter().count_many([row.embedding_text for row in rows])
        assert max(counts) <= tokens - SPECIAL_TOKENS
        assert [row.view for row in rows] == ["", *(str(number) for number in range(2, len(rows) + 1))]
        assert len({row.unit_id for row in rows}) == 1
        assert len({row.id for row in rows}) == len(rows)


def test_a_split_table_repeats_its_header_and_keeps_its_rows_whole() -> None:
    body = [f"| `setting_{number}` | {number} | What the setting number {number} is good for |" for number in range(40)]
    rows = cut("## A\n| Name | Default | Meaning |\n|---|:-:|--:|\n" + "\n".join(body)).chunks
    assert len(rows) > 2
    head = "| Name | Default | Meaning |\n| --- | --- | --- |\n"
    assert all(row.content_text.startswith(head) for row in rows)
    assert [line for row in rows for line in row.content_text.split("\n")[2:]] == body


def test_a_split_fence_repeats_its_opening_line() -> None:
    code = [f"value_{number} = compute({number})  # a comment" for number in range(60)]
    rows = cut("## A\n```python title=x\n" + "\n".join(code) + "\n```\n").chunks
    assert len(rows) > 2
    assert all(
        row.content_text.startswith("```python title=x\n") and row.content_text.endswith("\n```") for row in rows
    )
    assert [line for row in rows for line in row.content_text.split("\n")[1:-1]] == code


def test_a_fence_that_fits_is_never_split() -> None:
    fence = "```yaml\n" + "\n".join(f"key{number}: value" for number in range(25)) + "\n```"
    rows = cut(
        f"## A\n{LONG}\n\n{LONG}\n\n- item\n\n" + fence.replace("\n", "\n").join(["", "\n"]) + f"\n{LONG}\n", tokens=200
    ).chunks
    assert len(rows) > 1
    assert sum(fence in row.content_text for row in rows) == 1


def test_a_long_list_splits_between_its_items() -> None:
    items = [f"- Item {number}: " + "words " * 20 for number in range(20)]
    rows = cut("## A\n" + "\n".join(items)).chunks
    assert len(rows) > 1
    assert all(row.content_text.startswith("- Item") for row in rows)


def test_a_line_that_no_row_holds_splits_at_sentences_and_loses_nothing() -> None:
    words = [f"w{number}" for number in range(600)]
    text = ". ".join(" ".join(words[at : at + 20]) for at in range(0, 600, 20)) + "."
    chunked = cut(f"## A\n{text}\n")
    assert len(chunked.chunks) > 3
    assert chunked.counts["rows_sharing_a_line"] == len(chunked.chunks) - 1
    assert " ".join(row.content_text for row in chunked.chunks).replace(".", "").split() == words


def test_what_introduces_a_block_stays_with_it() -> None:
    code = "```sh\n" + "\n".join(f"run step {number}" for number in range(20)) + "\n```"
    first, second = cut(f"## A\n{LONG}{LONG}\n\nRun this:\n\n{code}\n", tokens=160).chunks
    assert second.content_text.startswith("Run this:\n\n```sh")
    assert "Run this" not in first.content_text


def test_a_line_inserted_above_changes_no_key() -> None:
    text = f"## A\n{LONG}\n## B\n{LONG}\n"
    assert [row.id for row in cut(text).chunks] == [row.id for row in cut("\n\n" + text).chunks]


# Text


def test_code_identifiers_and_regular_expressions_stay_as_they_are() -> None:
    pattern = r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
    assert pattern in only(f"## A\n   ```\n   {pattern}\n   ```\n")
    assert f"`{pattern}`" in only(f"## A\nUse `{pattern}` here.\n")
    assert "`StdOut` or `File` metrics collectors" in only("## A\nonly with `StdOut` or `File` metrics collectors.\n")
    assert "max_cache_staleness and __init__.py" in only("## A\nSet max_cache_staleness and \\_\\_init\\_\\_.py\n")


def test_links_images_and_emphasis_leave_their_words() -> None:
    text = """\
        ## A
        See **the [guide](https://a.example/x_y "t")**, [ref][r], ![alt text](b.png) and <https://c.example>.

        [r]: https://d.example
        """
    assert only(text) == "See the guide, ref, alt text and https://c.example."


def test_nested_lists_keep_their_shape() -> None:
    assert only("## A\n1. one\n   - two\n     * three\n\n       ```sh\n       ls\n       ```\n2. four\n") == dedent("""\
        1. one
           - two
             - three
               ```sh
               ls
               ```
        2. four""")


def test_an_html_table_becomes_rows_with_its_header_and_spans() -> None:
    text = """\
        ## A
        <table>
          <thead><tr><th>Group</th><th>Name</th><th>Version</th></tr></thead>
          <tbody>
            <!-- comment -->
            <tr><td rowspan="2">Serving</td><td>KServe</td><td><a href="https://x.example">v0.15.0</a></td></tr>

            <tr><td>Web app</td><td>v0.14.0<br>v0.14.1</td></tr>
          </tbody>
        </table>
        """
    assert only(text) == dedent("""\
        | Group | Name | Version |
        | --- | --- | --- |
        | Serving | KServe | v0.15.0 |
        | Serving | Web app | v0.14.0; v0.14.1 |""")


def test_hidden_text_comments_and_scripts_are_removed_and_counted() -> None:
    chunked = cut(
        """\
        ## A
        <div hidden>one</div>

        Seen <span style="display:none">two</span>.<!-- three -->

        <script>four()</script>
        """
    )
    assert [row.content_text for row in chunked.chunks] == ["Seen ."]
    assert (chunked.counts["hidden_text"], chunked.counts["html_comment"]) == (3, 1)


def test_placeholders_that_look_like_tags_stay() -> None:
    assert "kubectl -n <your-namespace>" in only("## A\nRun kubectl -n <your-namespace> now.\n")


# Hugo


def test_shortcodes_leave_their_text_and_what_is_dropped_is_counted() -> None:
    text = """\
        ## A
        {{% alert title="Careful" color="warning" %}}
        Mind the {{< param "app.version" >}} gap of {{% kf-latest-version %}}{{< nobody >}}.
        {{% /alert %}}

        {{< youtube id="x" title="A film" >}}
        {{< swaggerui-inline >}}
        https://raw.example.org/x.json
        {{< /swaggerui-inline >}}
        """
    chunked = cut(text, site={"params": {"app": {"version": "1.2"}, "kf-latest-version": "26.03.1"}})
    assert [row.content_text for row in chunked.chunks] == ["Careful:\nMind the 1.2 gap of 26.03.1.\n\nA film"]
    assert {key: value for key, value in chunked.counts.items() if key.startswith("shortcode")} == {
        "shortcode:nobody": 1,
        "shortcode:swaggerui-inline": 1,
    }


def test_a_tab_with_a_language_is_code_and_a_commented_shortcode_is_shown() -> None:
    text = """\
        ## A
        {{< blocks/tabs >}}
        {{{< blocks/tab name="Yaml" codelang="yaml" >}}
        a: "*"
        {{< /blocks/tab >}}}
        {{< /blocks/tabs >}}

        Write {{</* note */>}}.
        """
    assert only(text) == '`````yaml Yaml\na: "*"\n`````\n\nWrite {{< note >}}.'


def test_an_unclosed_shortcode_is_text() -> None:
    assert "{{< alert" in only("## A\nan {{< alert that never ends\n")


# Docusaurus


def test_mdx_imports_comments_and_components_leave_what_a_reader_sees() -> None:
    text = """\
        import Tabs from '@theme/Tabs';

        export const B = ({children}) => (
          <b>{children}</b>
        );

        {/* not
        for readers */}

        ## A
        The <B>bold</B> release is v<ActiveDocsVersion />.

        <Tabs>
          <TabItem value="pip" label="With pip" default>
            ```bash
            import this
            ```
          </TabItem>
        </Tabs>

        :::tip Expected Output
        Ready.
        :::
        """
    chunked = cut(text, "docusaurus", site={"params": {"ActiveDocsVersion": "0.20"}})
    assert [row.content_text for row in chunked.chunks] == [
        "The bold release is v0.20.\n\nWith pip:\n\n```bash\nimport this\n```\n\nTip: Expected Output\n\nReady."
    ]
    assert [gap.reason for gap in chunked.removed] == ["import_or_export", "component", "admonition_end"]


def test_an_api_field_is_a_line_that_says_name_type_and_meaning() -> None:
    text = """\
        ## A
        <ApiField
          name="uri"
          type="[URI](https://x.example)"
          required="true"
          description="Such as <code>s3://b</code> &amp; more."
        /><ApiField name="n" type="int" required="false" description="" />
        """
    assert only(text, "docusaurus").split("\n") == [
        "- `uri` (URI, required): Such as `s3://b` & more.",
        "- `n` (int, optional)",
    ]


def test_four_spaces_are_code_in_hugo_and_none_in_mdx() -> None:
    assert "```" in only("## A\nText\n\n    code\n")
    assert "```" not in only("## A\nText\n\n    no code\n", "docusaurus")


def test_both_spellings_of_an_explicit_id_are_read() -> None:
    text = f"## A {{#one}}\n{LONG}\n## B {{/* #two */}}\n{LONG}\n"
    assert [anchor for _, anchor in places(cut(text, "docusaurus"))] == ["one", "two"]


def test_level_one_of_docusaurus_has_no_anchor_unless_the_page_names_the_place() -> None:
    rows = cut(f'# T\n{LONG}\n# One\n{LONG}\n\n<a id="two.x"></a>\n\n# Two\n{LONG}\n', "docusaurus").chunks
    assert [row.citation_url.partition("#")[2] for row in rows] == ["", "", "two.x"]
    assert rows[1].unit_id.endswith("#one")


# Releases


def release_page() -> Chunked:
    text = f"""
## Kubeflow 1.10.1

<table><tr><th>Release Date</th><td>2025-06-02</td></tr></table>

{LONG}
### Parts

<table>
<thead><tr><th>Component</th><th>Version</th></tr></thead>
<tr><td>KServe</td><td>v0.15.0</td></tr>
<tr><td>Katib</td><td>v0.18.0</td></tr>
</table>

{LONG}
## Kubeflow 1.10.0

<table><tr><th>Release Date</th><td>March 26, 2025</td></tr></table>
"""
    return cut(f"+++\ntitle = 'Kubeflow 1.10'\n+++\n{text}", path="content/en/docs/releases/kubeflow-1.10.md")


def test_each_section_of_a_release_page_has_the_version_and_date_of_its_heading() -> None:
    facts = [(row.section_path, row.version, row.fields["release_date"]) for row in release_page().chunks]
    assert facts == [
        ("Kubeflow 1.10.1", ("1.10.1", "1.10"), "2025-06-02"),
        ("Kubeflow 1.10.1 > Parts", ("1.10.1", "1.10"), "2025-06-02"),
        ("Kubeflow 1.10.0", ("1.10.0", "1.10"), "2025-03-26"),
    ]


def test_a_release_page_carries_the_products_that_it_lists() -> None:
    assert {row.product_area for row in release_page().chunks} == {("platform", "katib", "kserve")}
    assert {row.fields["doc_type"] for row in release_page().chunks} == {"release_notes"}


def test_a_calendar_version_is_a_version_and_other_pages_have_no_release() -> None:
    (row,) = cut(f"# Kubeflow 26.03\n{LONG}", path="content/en/docs/releases/kubeflow-26.03.md").chunks
    assert row.version == ("26.03",)
    (row,) = cut(f"# Upgrade to 26.03\n{LONG}").chunks
    assert (row.version, row.fields) == ((), {"doc_type": "docs", "release_date": ""})


# Generated references


def test_a_generated_reference_packs_its_accessors_and_says_nothing_twice() -> None:
    methods = "".join(
        f"### get_{number}\n\nReturns field number {number}.\n\n### to_dict\n\nReturns a dict.\n\n"
        for number in range(300)
    )
    chunked = cut(f"# API\n\n## Class\n\n{methods}")
    assert len(chunked.chunks) < 60
    assert sum(row.content_text.count("Returns a dict.") for row in chunked.chunks) == 1
    assert all(
        f"field number {number}." in "".join(row.content_text for row in chunked.chunks) for number in range(300)
    )


# The sites

# Picked by hand; the address worked out from the sources named in `pages` and `anchors`.
KUBEFLOW = "https://www.kubeflow.org/docs"
PIPELINES = f"{KUBEFLOW}/components/pipelines"
KUBEFLOW_19 = f"{KUBEFLOW}/kubeflow-distribution/releases/kubeflow-1.9"
KSERVE = "https://kserve.github.io/website/docs"
MODELS = f"{KSERVE}/model-serving"
DEEP_LINKS = [
    ("about/contributing.md", f"{KUBEFLOW}/about/contributing/#prowhttpsgithubcomkubernetes-sigsprow"),
    ("about/contributing.md", f"{KUBEFLOW}/about/contributing/#owners_aliases"),
    ("kubeflow-1.9.md", f"{KUBEFLOW_19}/#kubeflow-community-distribution-191"),
    ("kubeflow-1.9.md", f"{KUBEFLOW_19}/#component-versions-1"),
    ("kubeflow-1.9.md", f"{KUBEFLOW_19}/#dependency-versions-manifests"),
    ("installing-kubeflow/index.md", f"{KUBEFLOW}/started/installing-kubeflow/#packaged-distributions"),
    ("standalone-deployment.md", f"{PIPELINES}/legacy-v1/installation/standalone-deployment/#configure-kubectl"),
    ("nas-algorithms.md", f"{KUBEFLOW}/components/katib/reference/nas-algorithms/#output-of-getsuggestion"),
    (
        "notebook-component.md",
        f"{PIPELINES}/user-guides/components/notebook-component/#dslnotebook_component-decorator-arguments",
    ),
    (
        "control-flow.md",
        f"{PIPELINES}/user-guides/core-functions/control-flow/"
        "#example-using-dslcollected-as-an-input-to-a-downstream-task",
    ),
    (
        "platform-specific-features.md",
        f"{PIPELINES}/user-guides/core-functions/platform-specific-features/#step-1-install-the-kfp-kubernetes-library",
    ),
    (
        "server-config.md",
        f"{PIPELINES}/operator-guides/server-config/"
        "#example-of-an-api-server-deployment-with-http_proxy-https_proxy-and-no_proxy-set",
    ),
    ("upgrade.md", f"{PIPELINES}/legacy-v1/installation/upgrade/#upgrading-to-v17"),
    ("quickstart-guide.md", f"{KSERVE}/getting-started/quickstart-guide#kubernetes-cluster"),
    ("servicemesh/index.md", f"{KSERVE}/admin-guide/serverless/servicemesh#mesh-wide-mtls"),
    ("get-involved.md", f"{KSERVE}/community/get-involved#-speaking--advocacy"),
    ("get-involved.md", f"{KSERVE}/community/get-involved#%EF%B8%8F-join-our-discussions"),
    ("control-plane.md", f"{KSERVE}/concepts/architecture/control-plane#integration--coordination"),
    (
        "kubernetes-deployment-llmisvc.md",
        f"{KSERVE}/admin-guide/kubernetes-deployment-llmisvc#gateway-api--inference-extension-crds",
    ),
    ("v2-protocol.md", f"{KSERVE}/concepts/architecture/data-plane/v2-protocol#inference-request-json-object"),
    ("lora-adapters.md", f"{MODELS}/generative-inference/llmisvc/lora-adapters#huggingface-hub-hf"),
    (
        "text-classification.md",
        f"{MODELS}/predictive-inference/frameworks/huggingface/text-classification#raw-logits-with---return_raw_logits",
    ),
    (
        "custom-predictor.md",
        f"{MODELS}/predictive-inference/frameworks/custom-predictor#1-providing-logger-configuration-as-a-dict",
    ),
    ("providers/s3/s3.md", f"{MODELS}/storage/providers/s3"),
    ("intro.mdx", f"{KSERVE}/intro"),
]


@needs_real_pages
@pytest.mark.parametrize(("path", "address"), DEEP_LINKS)
def test_a_deep_link_is_the_one_that_the_site_has(path: str, address: str) -> None:
    found = real_pages(ending=f"/{path}")
    assert address in {row.citation_url for document in found for row in chunk(document, budget()).chunks}


@needs_real_pages
@pytest.mark.slow
def test_every_real_page_is_partitioned_and_gives_rows_or_says_why_not() -> None:
    problems: dict[str, str] = {}
    skipped: dict[str, str] = {}
    longest = total = 0
    for document in real_pages():
        total += 1
        result = chunk(document, budget())
        problem = partition_problem(document, result)
        if problem:
            problems[document.path] = problem
        if result.skipped is not None:
            skipped[document.path] = result.skipped.reason
            continue
        assert result.chunks, document.path
        counts = wordpiece_counter().count_many([row.embedding_text for row in result.chunks])
        longest = max(longest, *counts)
    assert problems == {}
    assert (total, set(skipped.values())) == (359, {"empty"})
    assert longest <= 256 - SPECIAL_TOKENS
