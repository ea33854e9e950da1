"""Files that are made to be slow, deep or large: each is cut, skipped or stopped, and counted.

Work is bounded by what is counted (steps of a parser, brackets, documents), so nothing here looks at a clock.
"""

from __future__ import annotations

import random

import pytest
from kubeflow_corpus.chunking.code import grammars
from kubeflow_corpus.chunking.code.grammars import LIMITS, Limits
from kubeflow_corpus.chunking.manifests.crds import collect_context
from kubeflow_corpus.tokens import wordpiece_counter

from tests.chunking.code_samples import cut, document, names, rows_of

# Language, a path, and a small declaration.
LANGUAGES = {
    "go": ("a.go", "func F%d() {}\n"),
    "python": ("a.py", "def F%d(): pass\n"),
    "typescript": ("a.ts", "function F%d() {}\n"),
    "tsx": ("a.tsx", "const F%d = () => <a/>;\n"),
    "javascript": ("a.js", "function F%d() {}\n"),
    "bash": ("a.sh", "F%d() { :; }\n"),
    "dockerfile": ("Dockerfile", "FROM a AS F%d\n"),
    "proto": ("a.proto", "message F%d {}\n"),
}
PATHS = {language: path for language, (path, _) in LANGUAGES.items()}
PARSED = sorted(set(LANGUAGES) - {"proto"})
each_language = pytest.mark.parametrize("language", LANGUAGES)
each_parsed = pytest.mark.parametrize("language", PARSED)


def noise(size: int, seed: int = 5) -> str:
    chosen = random.Random(seed)
    return bytes(chosen.randrange(1, 256) for _ in range(size)).decode("latin-1")


def brackets(size: int, seed: int = 5) -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choice("{}()[]\"'`;:,.<>/*=+-\n ab") for _ in range(size))


@each_parsed
@pytest.mark.parametrize("opening", ["(\n", "a[\n", "{ x\n", "$(\n"])
def test_brackets_that_nest_deeper_than_code_are_not_parsed_but_become_windows(language: str, opening: str) -> None:
    text = opening * (LIMITS.nesting + 1)
    chunked = cut(document(PATHS[language], text))
    assert (chunked.counts["parse_stopped"], chunked.counts["fallback"]) == (1, 1)
    assert chunked.chunks[0].content_text.startswith(opening.strip())
    assert {row.fields["symbol"] for row in chunked.chunks} == {""}


@pytest.mark.parametrize(
    ("path", "unit", "size"),
    [
        # Each opening is looked for to the end of the file.
        ("a.go", "/*\n", 60_000),
        # The parser goes back and forth at each line.
        ("a.go", "*/\n", 60_000),
        ("a.ts", "${1\n", 60_000),
        # One step at the end of the file would take the square of its size in memory: 24 GB for 450 KB.
        ("a.py", "/*\n", 590_000),
        ("a.py", "^ *\n", 590_000),
        ("a.py", "| await (\n", 590_000),
    ],
)
def test_what_a_grammar_cannot_take_is_stopped_and_counted(path: str, unit: str, size: int) -> None:
    text = (unit * (size // len(unit) + 1))[:size]
    chunked = cut(document(path, text))
    assert (chunked.counts["parse_stopped"], chunked.counts["fallback"]) == (1, 1)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(nesting=0, chains=9, steps=9_000, steps_per_kb=9, reads=9, seconds=9),
        Limits(nesting=9, chains=0, steps=9_000, steps_per_kb=9, reads=9, seconds=9),
        Limits(nesting=9, chains=9, steps=1, steps_per_kb=0, reads=9, seconds=9),
        Limits(nesting=9, chains=9, steps=9_000, steps_per_kb=9, reads=0, seconds=9),
        Limits(nesting=9, chains=9, steps=9_000, steps_per_kb=9, reads=9, seconds=-1),
    ],
    ids=["nesting", "chains", "steps", "reads", "seconds"],
)
def test_each_limit_stops_a_parse_and_the_next_file_is_read_from_its_start(limits: Limits) -> None:
    text = b"def f(a, b):\n    return f(a / b, *a) | *b\n" * 200
    assert grammars.parse("python", text, limits) is None
    tree = grammars.parse("python", b"x = 1\n")
    assert tree is not None and not tree.root_node.has_error
    assert tree.root_node.end_byte == 6


@each_language
def test_a_line_of_half_a_megabyte_is_not_shown_and_counted(language: str) -> None:
    path, declaration = LANGUAGES[language]
    minified = "var a=function(b,c){return b?c(b):function(d){return[d,{e:1}]}};" * 8_000
    skipped = cut(document(path, minified))
    assert skipped.skipped is not None and skipped.counts["long_line"] == 1
    beside = cut(document(path, declaration % 1 + minified + "\n" + declaration % 2))
    assert {"F1", "F2"} <= names(beside)
    assert beside.counts["long_line"] == 1
    assert not any("return[d" in row.content_text for row in beside.chunks)


@each_language
def test_a_megabyte_is_no_source_file(language: str) -> None:
    skipped = cut(document(PATHS[language], "x = 1; " * 150_000)).skipped
    assert skipped is not None and skipped.reason == "too_large"


def check_noise(language: str, size: int) -> None:
    counter = wordpiece_counter()
    for text in (noise(size), brackets(size)):
        chunked = cut(document(PATHS[language], text))
        if language != "proto":
            assert {"parse_error", "parse_stopped"} & set(chunked.counts)
        assert all(counter.count(row.embedding_text) + 2 <= 256 for row in chunked.chunks)


@each_language
def test_noise_is_cut_into_windows_that_the_model_can_read(language: str) -> None:
    check_noise(language, 6_000)


@pytest.mark.slow
@each_language
def test_much_noise_is_too(language: str) -> None:
    check_noise(language, 80_000)


def check_declarations(language: str, number: int) -> None:
    path, declaration = LANGUAGES[language]
    chunked = cut(document(path, "".join(declaration % index for index in range(number))))
    # Names that do not fit into the field of a merged row are cut there, not in the text.
    text = "\n".join(row.content_text for row in chunked.chunks)
    assert all(declaration.strip() % index in text for index in range(0, number, number // 20))
    assert "parse_stopped" not in chunked.counts


@each_language
def test_many_small_declarations_are_all_there(language: str) -> None:
    check_declarations(language, 600)


@pytest.mark.slow
@each_language
def test_as_many_small_declarations_as_a_file_may_hold_are_all_there(language: str) -> None:
    check_declarations(language, 20_000)


@pytest.mark.slow
def test_a_class_and_a_group_of_ten_thousands_are_cut() -> None:
    methods = "".join(f"    def m{index}(self): pass\n" for index in range(15_000))
    assert rows_of(cut(document("a.py", f"class A:\n{methods}")), "A")
    entries = "".join(f"\tA{index} = {index}\n" for index in range(30_000))
    assert "A29999 = 29999" in cut(document("a.go", f"package a\n\nconst (\n{entries})\n")).chunks[-1].content_text
    stages = cut(document("Dockerfile", "FROM a\n" * 20_000)).chunks
    assert len({row.unit_id for row in stages}) == 20_000


# --- Go types behind CRDs ---


def test_go_types_are_passed_over_where_their_file_is_not_parsed() -> None:
    text = 'package a\n\ntype A struct {\n\tB int `json:"b"`\n}\n'
    broken = text + "(\n" * (LIMITS.nesting + 1)
    context = collect_context([document("pkg/a.go", text), document("pkg/b.go", broken.replace("type A", "type C"))])
    (types,) = context.go.values()
    assert [name for _, name in types.structs] == ["A"]


@pytest.mark.slow
def test_a_comment_of_ten_thousands_of_lines_is_walked_once() -> None:
    text = "package a\n" + "// c\n" * 60_000 + 'type A struct {\n\tB int `json:"b"`\n}\n' * 3_000
    (types,) = collect_context([document("pkg/a.go", text)]).go.values()
    assert next(iter(types.structs.values())).doc.startswith("c c c")


# --- Manifests ---

CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b.c\n"


def test_a_stream_of_more_documents_than_a_bundle_has_is_cut_off_and_counted() -> None:
    chunked = cut(document("a.yaml", "---\n" * 4_998 + "---\na: 1\n---\nb: 1\n---\nc: 1\n"))
    assert chunked.counts["too_many_documents"] == 1
    assert [row.content_text for row in chunked.chunks] == ["a: 1", "b: 1"]


def test_a_definition_that_no_parser_reads_is_not_shown_as_half_a_megabyte_of_text() -> None:
    skipped = cut(document("a.yaml", CRD + "spec: [\n" + "  a: ]\n" * 80_000))
    assert skipped.skipped is not None and skipped.skipped.reason == "too_large"
    assert skipped.counts["yaml_error"] == 1


def test_a_name_without_end_is_no_name() -> None:
    text = "kind: CustomResourceDefinition\nmetadata:\n  name: " + "a." * 100_000 + "!\n"
    assert collect_context([document("a.yaml", text)]).copies == {}
    assert cut(document("a.yaml", text)).counts["long_line"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "kind: ConfigMap\ndata:\n" + "  # c\n" * 40_000 + "".join(f'  k{index}: "1"\n' for index in range(15_000)),
        "kind: List\nitems:\n" + "- kind: A\n" * 15_000,
        CRD + "spec:\n  versions:\n" + "  - a\n" * 500_000,
        "a: [" + "[1],\n" * 90_000 + "]",
        "a:\n" + "- b\n" * 120_000,
    ],
    ids=["keys below a comment", "list of objects", "versions", "flow", "sequence"],
)
def test_large_manifests_of_little_content_are_cut_or_counted(text: str) -> None:
    cut(document("a.yaml", text))
