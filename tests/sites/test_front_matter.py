import pytest
from kubeflow_corpus.sites.front_matter import read_front_matter


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: A\ndraft: true\n---\nBody",
        '+++\ntitle = "A"\ndraft = true\n+++\nBody',
        '{\n"title": "A",\n"draft": true\n}\nBody',
        "\ufeff---\ntitle: A\ndraft: true\n---\nBody",
    ],
)
def test_yaml_toml_and_json_front_matter_say_the_same(text: str) -> None:
    lines = text.split("\n")
    front = read_front_matter(lines)
    assert (front.text("title"), front.flag("draft"), lines[front.lines]) == ("A", True, "Body")


def test_damaged_front_matter_still_gives_its_flat_lines() -> None:
    front = read_front_matter(["---", "title: A", "bad: [unclosed", "---", "Body"])
    assert (front.data, front.lines) == ({"title": "A", "bad": "[unclosed"}, 4)


@pytest.mark.parametrize("text", ["---\ntitle: never closed", "--- \n", "***\n---\n", "", "{\nno json\n}\n"])
def test_what_only_looks_like_front_matter_is_body(text: str) -> None:
    assert read_front_matter(text.split("\n")).lines == 0


def test_hostile_yaml_is_not_front_matter_and_does_not_crash() -> None:
    for body in ("a: !!python/object/apply:os.system [ls]", "a: " + "[" * 5_000, "? [a, b]\n: c"):
        assert read_front_matter(["---", *body.split("\n"), "---"]).lines in (3, 4)
