"""What holds for every page, whatever is in it."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.compose import MAX_TEXT_BYTES, SPECIAL_TOKENS
from kubeflow_corpus.chunking.docs.markdown import chunk
from kubeflow_corpus.tokens import wordpiece_counter

from tests.chunking.doc_samples import budget, page, partition_problem

PIECES = ["the", "gateway", "`minReplicas`", "of", "**a**", "[run](x)", "<b>is</b>", "1.9.1", ":::"]
WORDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=40)
PROSE = WORDS.map(" ".join)
HEADING = st.tuples(st.integers(1, 6), st.sampled_from(["A", "B", "A", "`C` d", "É {#e}", "", "&nbsp;"])).map(
    lambda found: f"{'#' * found[0]} {found[1]}"
)
FENCE = st.tuples(st.sampled_from(["```", "~~~~", "  ```"]), st.lists(PROSE, max_size=30), st.booleans()).map(
    lambda found: "\n".join([f"{found[0]}sh", "# no heading", *found[1], *([found[0]] if found[2] else [])])
)
TABLE = st.lists(st.tuples(PROSE, PROSE), min_size=1, max_size=30).map(
    lambda rows: "\n".join(["| a | b |", "|---|---|", *(f"| {one} | {two} |" for one, two in rows)])
)
ITEMS = st.lists(st.tuples(st.sampled_from(["- ", "  - ", "1. ", "    * "]), PROSE), min_size=1, max_size=20).map(
    lambda items: "\n".join(marker + text for marker, text in items)
)
MARKUP = st.sampled_from(
    [
        "<!-- one\ntwo\n-->",
        "<table>\n<tr><th>a</th><td>b</td></tr>\n\n<tr><td>c</td></tr>\n</table>",
        '{{% alert title="Note" %}}\ntext\n{{% /alert %}}',
        "{{< unknown >}}",
        "{{< swaggerui-inline >}}\nhttps://x.example\n{{< /swaggerui-inline >}}",
        "import A from './a';",
        "export const B = () => (\n  <b/>\n);",
        '<Tabs>\n<TabItem label="x">\ntext\n</TabItem>\n</Tabs>',
        '<ApiField\n  name="a"\n  description="b"\n/>',
        "{/* one\n\ntwo */}",
        ":::tip Title\ntext\n:::",
        "[ref]: https://x.example",
        '<a id="place"></a>',
        "Setext\n======",
        "---",
        "> quote\n> ## heading",
        "<details>\n<summary>s</summary>\n\ntext\n\n</details>",
        "w " * 700,
    ]
)
FRONT = st.sampled_from(
    ["", "---\ntitle: T\n---\n", "+++\ntitle = 'T'\ndescription = 'D'\n+++\n", "---\nbroken: [\n---\n"]
)
PAGES = st.tuples(
    FRONT,
    st.lists(
        st.tuples(st.one_of(HEADING, PROSE, FENCE, TABLE, ITEMS, MARKUP), st.sampled_from(["\n", "\n\n", "\n\n\n"])),
        max_size=14,
    ),
).map(lambda found: found[0] + "".join(block + gap for block, gap in found[1]))
GENERATORS = st.sampled_from(["hugo", "docusaurus", ""])
QUIET = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@QUIET
@given(text=PAGES, generator=GENERATORS, tokens=st.sampled_from([32, 128, 256]))
def test_rows_and_removals_partition_the_lines_and_fit_the_budget(text: str, generator: str, tokens: int) -> None:
    document = page(text, generator)
    chunked = chunk(document, budget(tokens))
    assert partition_problem(document, chunked) == ""
    rows = chunked.chunks
    counts = wordpiece_counter().count_many([row.embedding_text for row in rows])
    assert all(count <= tokens - SPECIAL_TOKENS for count in counts)
    assert all(row.content_text.strip() for row in rows)
    assert all(len(row.search_text.encode()) <= MAX_TEXT_BYTES for row in rows)
    assert len({row.id for row in rows}) == len(rows)
    assert len({(row.unit_id, row.view) for row in rows}) == len(rows)
    assert [row.start_line for row in rows] == sorted(row.start_line for row in rows)


@QUIET
@given(
    text=st.text(st.one_of(st.sampled_from("#`~<>{}[]()|*-_:!\\/\"'=%&$ \n\t"), st.characters()), max_size=400),
    generator=GENERATORS,
)
@example(text="0\n\x1f", generator="hugo")
@example(text="---\ntitle: T\n---\n0\n\x00", generator="")
def test_any_text_is_cut_and_partitioned(text: str, generator: str) -> None:
    document = page(text, generator)
    assert partition_problem(document, chunk(document, budget(64))) == ""


# A table as minified HTML has it: all rows on one line, or a few on each, whose cells reach right and down.
CELL = st.tuples(
    st.sampled_from(["td", "td", "th"]),
    st.sampled_from(["", " rowspan=2", " rowspan=200", " colspan=3", " colspan=1000 rowspan=1000"]),
    st.sampled_from(["", "a", "gateway", "the gateway of the cluster"]),
).map(lambda found: f"<{found[0]}{found[1]}>{found[2]}</{found[0]}>")
DENSE_TABLES = st.tuples(
    st.integers(1, 250),
    st.lists(st.lists(CELL, max_size=4).map("".join), min_size=1, max_size=5),
    st.sampled_from([1, 2, 7, 1_000]),
    st.sampled_from(
        ["", "<tr><th>a</th><th>b</th></tr>", "<thead><tr><td>a</td></tr></thead>", "<caption>c</caption>"]
    ),
    st.sampled_from(["", "</table>"]),
).map(
    lambda found: (
        f"<table>{found[3]}"
        + "".join(
            f"<tr>{found[1][row % len(found[1])]}</tr>" + "\n" * (row % found[2] == found[2] - 1)
            for row in range(found[0])
        )
        + found[4]
    )
)


@QUIET
@given(
    table=DENSE_TABLES,
    frame=st.sampled_from(
        ["%s", "# A\n\n%s\n", "---\ntitle: T\n---\ntext\n\n%s\n\n## B\n\ntext\n", "- a\n\n  %s", "> %s"]
    ),
    generator=GENERATORS,
    tokens=st.sampled_from([32, 256]),
)
def test_rows_of_a_table_that_share_a_line_get_that_line(table: str, frame: str, generator: str, tokens: int) -> None:
    document = page(frame % table, generator)
    chunked = chunk(document, budget(tokens))
    assert partition_problem(document, chunked) == ""
    assert [row.start_line for row in chunked.chunks] == sorted(row.start_line for row in chunked.chunks)


SILENT = st.sampled_from(
    ["", " ", "<!-- c -->", "![](a.png)", "&nbsp;", "&#8203;", "<br>", "[](b)", '<img src="a.png">']
)


@QUIET
@given(
    headings=st.lists(
        st.tuples(st.integers(1, 6), st.one_of(SILENT, st.sampled_from(["A", "B"])), st.sampled_from(["", "word"])),
        max_size=12,
    ),
    repeated=st.sampled_from([1, 60]),
    generator=GENERATORS,
)
def test_a_heading_that_shows_no_text_divides_nothing_and_leaves_no_label(
    headings: list[tuple[int, str, str]], repeated: int, generator: str
) -> None:
    text = "".join(f"{'#' * level} {name}\n{f'{word} ' * repeated}\n\n" for level, name, word in headings)
    document = page(text, generator)
    chunked = chunk(document, budget(64))
    assert partition_problem(document, chunked) == ""
    rows = "\n".join(row.content_text for row in chunked.chunks)
    assert rows.count("word") == repeated * sum(word != "" for _, _, word in headings)
    assert {part for row in chunked.chunks for part in row.section_path.split(" > ")} <= {"", "A", "B"}
    assert not set(rows.split()) - {"word", "**A**", "**B**"}


# Text that a careless scanner reads again from each of its beginnings, or one call deeper for each character.
MOST_HOSTILE = 100_000
HOSTILE = {
    "one long word": "a" * MOST_HOSTILE,
    "one long line": "word " * 20_000,
    "open tags": "<a " * 60_000,
    "tags that quote": '<a b="' * 40_000,
    "tags that brace": "<A b={" * 40_000,
    "comments": "<!-- " * 40_000,
    "declarations": "<! x\n" * 20_000,
    "MDX comments": "{/* " * 40_000,
    "braces": "{{{{" * 20_000,
    "strings": "{'" * 40_000,
    "shortcodes": "{{< a " * 30_000,
    "shortcode pairs": "{{< tabs >}}\n" * 10_000,
    "brackets": "[" * 50_000,
    "images": "![" * 30_000,
    "links": "[a](" * 20_000,
    "emphasis": "*a _b " * 20_000,
    "backticks": " ".join("`" * (number % 300) for number in range(2_000)),
    "quotes": ">" * 20_000,
    "quoted lists": "> - " * 5_000,
    "lists": "- " * 20_000,
    "deeper lists": "\n".join(" " * (2 * number) + "- a" for number in range(400)),
    "tables": "<table><tr><td>" * 5_000,
    "wide rows": "<table><tr>" + "<td rowspan=9999 colspan=9999>a" * 5_000,
    "pipes": "|" * 50_000 + "\n" + "|-" * 50_000,
    "headings": "# a\n" * 5_000,
    "fences": "```\na\n" * 10_001,
    "references": "[a]: b\n" * 10_000,
    "entities": "&amp;" * 20_000,
    "escapes": "\\*" * 50_000,
    "admonitions": ":::note\n" * 10_000,
    "exports": "export const a = {\n\n" * 3_000,
    "hidden": "<div hidden>" * 20_000,
}


# As long as a document that a caller may write. What reads a run again from each of its characters needs minutes.
LONGEST = 199_000
BLANKS = {"spaces": " ", "tabs": "\t", "no-break spaces": "\xa0", "line separators": "\u2028"}
RUNS = {
    "heading": "# a%sx\n\nbody",
    "heading that opens a brace": "# a {%sx\n\nbody",
    "heading before attributes": "# a {#b}%sx\n\nbody",
    "name of an attribute": "# a { id%s}\n\nbody",
    "value of an attribute": "# a { id=%s}\n\nbody",
    "heading in MDX": "# a {/*%s#b\n\nbody",
    "linter mark": "a%sx # noqa",
    "quoted alert": "> [!NOTE]%sx",
    "shortcode": "{{<%s1 >}}",
    "tag": "<A%s!",
    "admonition": ":::note%s{\n",
    "front matter": "---\na%sb\nc: [\n---\nbody",
    "style": '<p style="display%sx">text</p>',
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("generator", ["hugo", "docusaurus"])
@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_blanks_is_read_once(name: str, blank: str, generator: str) -> None:
    document = page(RUNS[name] % (BLANKS[blank] * LONGEST), generator)
    assert partition_problem(document, chunk(document, budget())) == ""


# Each is short enough for a limit, and there are as many as a document holds.
REPEATED = {
    "admonitions before blanks": ":::note" + " " * 980 + "x{\n",
    "admonitions with titles before blanks": ":::note x" + " " * 980 + "{\n",
    "admonitions of brackets": ":::note[" + "]{" * 490 + "\n",
    "shortcodes of blanks": "{{< " + " " * 3_900 + "1 >}}\n",
    "shortcodes of escaped quotes": '{{< a "' + '\\"' * 1_900 + " >}}\n",
    "shortcodes on one line": "{{< a >}}",
    "components on one line": "<A/>",
    "comments that nothing closes": "{/* ",
    "tables that nothing closes": "<table>\n\n",
    "sections of a word": "## a\nx\n",
    "headings without text": "##\nx\n\n",
    "paragraphs that no model reads": "\u200b\n\n",
    "braces in a heading": "{#a} ",
    "linter marks": "a  # noqa ",
}


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("generator", ["hugo", "docusaurus"])
@pytest.mark.parametrize("name", REPEATED)
def test_what_is_repeated_to_the_end_of_a_document_is_read_once(name: str, generator: str) -> None:
    unit = REPEATED[name]
    document = page("# " * (unit == "{#a} ") + unit * (LONGEST // len(unit)), generator)
    assert partition_problem(document, chunk(document, budget())) == ""


def test_cells_that_reach_down_in_tables_of_tables_do_not_multiply() -> None:
    table = "word"
    for _ in range(6):
        table = f"<table><tr><td rowspan=200>{table}</td></tr>{'<tr></tr>' * 200}</table>"
    chunked = chunk(page(table), budget())
    assert 0 < sum(len(row.content_text) for row in chunked.chunks) < 100 * len(table)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("generator", ["hugo", "docusaurus"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_neither_hangs_nor_crashes(name: str, generator: str) -> None:
    document = page(HOSTILE[name][:MOST_HOSTILE], generator)
    assert partition_problem(document, chunk(document, budget())) == ""
