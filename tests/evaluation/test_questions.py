import json
from pathlib import Path

import pytest
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.questions import BEST_GRADE, Question, add_question, digest, load_questions

GOOD = {"id": "q1", "query": "what is the default", "tool": "docs", "kind": "default", "expected": ["a/b:docs/x.md"]}


def written(path: Path, *lines: object) -> Path:
    file = path / "questions.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n", "utf-8")
    return file


def test_a_question_is_added_whatever_characters_it_has(tmp_path: Path) -> None:
    file = tmp_path / "set" / "q.jsonl"
    texts = ["a\u2028b", "a\x85b\x1c", 'tab\tline\nquote" \\', "\u202eturned", "{{x}}"]
    for text in texts:
        add_question(file, Question("", text, "docs", "asked", {"a/b:c": 3}))
    assert [question.query for question in load_questions(file)] == texts
    assert [question.id for question in load_questions(file)] == ["d001", "d002", "d003", "d004", "d005"]


def test_an_id_is_made_that_is_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    add_question(file, Question("d002", "first", "docs", "asked", {"a/b:c": 3}))
    assert add_question(file, Question("", "second", "docs", "asked", {"a/b:c": 3})).id == "d003"


def test_a_wrong_question_names_the_set_and_leaves_it(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    add_question(file, Question("", "first", "docs", "asked", {"a/b:c": 3}))
    before = file.read_bytes()
    with pytest.raises(EvaluationError, match=r"q\.jsonl:2: "):
        add_question(file, Question("", "second", "docs", "asked", {"nowhere": 3}))
    assert file.read_bytes() == before and [*tmp_path.iterdir()] == [file]


def test_a_list_of_paths_means_that_any_one_of_them_is_a_full_answer(tmp_path: Path) -> None:
    (question,) = load_questions(written(tmp_path, {**GOOD, "expected": ["a/b:x.md", "a/b:y.md"]}))

    assert question.any_of
    assert question.expected == {"a/b:x.md": BEST_GRADE, "a/b:y.md": BEST_GRADE}


def test_an_object_of_paths_grades_them(tmp_path: Path) -> None:
    (question,) = load_questions(written(tmp_path, {**GOOD, "expected": {"a/b:x.md": 3, "a/b:y.md": 1}}))

    assert not question.any_of
    assert question.expected == {"a/b:x.md": 3, "a/b:y.md": 1}


def test_a_question_survives_its_json_form(tmp_path: Path) -> None:
    rich = {
        **GOOD,
        "expected": {"a/b:x.md": 2},
        "filters": {"product_area": "katib"},
        "must_contain": ["StdOut"],
        "forbidden": ["a/b:legacy.md"],
        "product_area": "katib",
        "version": "1.9",
        "intent": "exact",
    }
    (question,) = load_questions(written(tmp_path, rich))
    (again,) = load_questions(written(tmp_path, question.to_dict()))

    assert again == question


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({**GOOD, "query": " "}, "'query' must be a non-empty string"),
        ({**GOOD, "id": 7}, "'id' must be a non-empty string"),
        ({**GOOD, "tool": "wiki"}, "tool 'wiki' is not one of docs, issues, code"),
        ({**GOOD, "expects": []}, "unknown key 'expects'"),
        ({**GOOD, "expected": []}, "must name at least one"),
        ({**GOOD, "expected": ["docs/x.md"]}, "is not 'owner/repo:path'"),
        ({**GOOD, "expected": {"a/b:x.md": 4}}, "grade 4"),
        ({**GOOD, "filters": {"kind": "Pod"}}, "docs has no filter 'kind'"),
        ({**GOOD, "filters": ["katib"]}, "'filters' must be an object"),
        ({**GOOD, "must_contain": "x"}, "'must_contain' must be a list"),
        ({**GOOD, "forbidden": [""]}, "'forbidden' must be a list"),
        ({**GOOD, "product_area": "kubric"}, "product area 'kubric'"),
    ],
)
def test_a_wrong_line_is_named_with_its_file_and_number(tmp_path: Path, line: object, problem: str) -> None:
    file = written(tmp_path, {**GOOD, "id": "first"}, "", line)

    with pytest.raises(EvaluationError, match=problem) as caught:
        load_questions(file)

    assert str(caught.value).startswith(f"{file}:3: ")


def test_an_id_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="'q1' is there twice"):
        load_questions(written(tmp_path, GOOD, GOOD))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe"])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_bytes(content)

    with pytest.raises(EvaluationError, match="empty.jsonl"):
        load_questions(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="none.jsonl"):
        load_questions(tmp_path / "none.jsonl")


def test_the_fingerprint_ignores_the_order_and_sees_every_change(tmp_path: Path) -> None:
    one, two = load_questions(written(tmp_path, GOOD, {**GOOD, "id": "q2"}))
    (changed,) = load_questions(written(tmp_path, {**GOOD, "must_contain": ["x"]}))

    assert digest([one, two]) == digest([two, one])
    assert digest([one]) != digest([changed])


def test_the_development_questions_load(development_questions: Path) -> None:
    questions = load_questions(development_questions)

    assert {question.tool for question in questions} == {"docs", "code"}
    assert all(question.any_of for question in questions)


@pytest.fixture
def development_questions() -> Path:
    file = Path(__file__).resolve().parents[3] / "shared" / "eval" / "dev_queries.jsonl"
    if not file.exists():
        pytest.skip("the development questions are not beside this checkout")
    return file
