"""Filters: a closed list, typed values, and expressions that no value can change.

Longer: ``FILTER_VALUES=1000000 python -m pytest tests/query/test_filters.py``.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.collections import CODE, COLLECTIONS, DOCS, FILTERS, ISSUES
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.filters import check_areas, expression, filters_of, validated
from kubeflow_corpus.vocabulary import default_vocabulary

VALUES = int(os.environ.get("FILTER_VALUES", "3000"))
# What values are joined of that try to leave their literal.
PARTS = (
    *(
        '" or 1 == 1 or "',
        '"] or id != ""',
        'x") or ("',
        '\\"',
        "\\u0022",
        "\\x22",
        "&quot;",
        "/*",
        "--",
        "visibility",
        "not in",
    ),
    *"\"'\\{}()[]$%,~#\n\r\t\0\x1b\x85\u2028\u202e\ufeff\ud800\uff02\u201c aB_-1.",
    *("or", "and", "true", "like", "1.9", "2025-01-31", "日本語", "🚀"),
)


def made(spec: Any, **given: Any) -> str:
    return expression(validated(spec, given))


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        (DOCS, {"product_area": "katib"}, 'ARRAY_CONTAINS(product_area, "katib")'),
        (DOCS, {"product_area": "Model Registry"}, 'ARRAY_CONTAINS(product_area, "model-registry")'),
        (DOCS, {"version": "v1.9.1"}, 'ARRAY_CONTAINS(version, "1.9.1")'),
        (
            DOCS,
            {"version": ["1.9", "v2"]},
            '(ARRAY_CONTAINS(version, "1.9") or ARRAY_CONTAINS(version, "v2"))',
        ),
        (ISSUES, {"state": "OPEN"}, 'state in ["open"]'),
        (ISSUES, {"labels": ["a", "b"]}, '(ARRAY_CONTAINS(labels, "a") and ARRAY_CONTAINS(labels, "b"))'),
        (ISSUES, {"resolved": True}, "resolved == true"),
        (CODE, {"kind": "ConfigMap", "language": "yaml"}, 'kind in ["ConfigMap"] and language in ["yaml"]'),
        (DOCS, {"updated_after": "2025-01-31"}, 'updated_at >= "2025-01-31"'),
        (DOCS, {"updated_after": date(2025, 1, 31)}, 'updated_at >= "2025-01-31"'),
        (DOCS, {"updated_after": datetime(2025, 1, 31, 12, tzinfo=UTC)}, 'updated_at >= "2025-01-31T12:00:00Z"'),
        (DOCS, {"released_before": "2025-01-31"}, '(release_date <= "2025-01-31~" and release_date != "")'),
        (DOCS, {"product_area": None, "version": "", "repo": []}, ""),
    ],
)
def test_a_filter_becomes_one_expression(spec: Any, given: dict[str, Any], expected: str) -> None:
    assert made(spec, **given) == expected


@pytest.mark.parametrize(
    ("spec", "given", "known"),
    [
        (DOCS, {"product_area": "nonsense"}, "katib"),
        (DOCS, {"state": "open"}, "product_area"),
        (ISSUES, {"state": "reopened"}, "closed"),
        (CODE, {"colour": "red"}, "language"),
    ],
)
def test_what_is_unknown_is_refused_and_the_known_is_named(spec: Any, given: dict[str, Any], known: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_areas(validated(spec, given), default_vocabulary())
    assert known in str(caught.value)
    assert known in caught.value.fields["known"]


@pytest.mark.parametrize(
    "given",
    [
        {"repo": 3},
        {"repo": ["a", 3]},
        {"repo": ["x"] * 101},
        {"repo": "x" * 2000},
        {"repo": "\x00\x01"},
        {"updated_after": "yesterday"},
        {"updated_after": 5},
        {"resolved": "yes"},
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        validated(ISSUES, given)


def test_every_collection_has_its_own_filters() -> None:
    assert "kind" in filters_of(CODE) and "kind" not in filters_of(DOCS)
    assert "visibility" not in {*filters_of(DOCS), *filters_of(ISSUES), *filters_of(CODE)}


HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        '"',
        "\\",
        '\\"',
        '" or 1 == 1 or "',
        '"] or id != ""',
        "'",
        "{x}",
        "%",
        "\n",
        "\u202e",
        "日本語",
        "🚀",
        "",
        "~",
        'x") or ("',
    ]
)


def outside_of_literals(text: str) -> str:
    """What remains of an expression when its string literals are taken out, as a parser would."""
    rest, inside, escaped = [], False, False
    for char in text:
        if inside:
            escaped, inside = (char == "\\" and not escaped), not (char == '"' and not escaped)
        elif char == '"':
            inside = True
        else:
            rest.append(char)
    assert not inside
    return "".join(rest)


@given(HOSTILE, HOSTILE)
def test_no_value_changes_the_expression_around_it(repo: str, label: str) -> None:
    try:
        filters = validated(ISSUES, {"repo": repo, "labels": [label, "x"]})
    except InvalidArgument:
        return
    if len(filters) == 2:
        assert outside_of_literals(expression(filters)) == (
            "repo in [] and (ARRAY_CONTAINS(labels, ) and ARRAY_CONTAINS(labels, ))"
        )


def test_no_generated_value_and_no_group_changes_the_shape_of_any_filter() -> None:
    chosen = random.Random(7)
    filters = [(spec, rule) for spec in COLLECTIONS for rule in spec.filters if rule.operator != "flag"]
    taken = 0
    for _ in range(VALUES):
        spec, rule = chosen.choice(filters)
        value, group = ("".join(chosen.choices(PARTS, k=chosen.randrange(1, 9))) for _ in range(2))
        try:
            found = validated(spec, {rule.name: value})
        except InvalidArgument:
            continue
        taken += 1
        assert outside_of_literals(expression(found, (group,))) == shape(spec, rule.name), (rule.name, value, group)
    assert taken > VALUES / 3


def shape(spec: Any, name: str) -> str:
    """What stands around the literals of a filter by one plain value, for a caller of one group."""
    plain = "2025-01-31" if FILTERS[name].operator in ("after", "before") else next(iter(FILTERS[name].known), "x")
    return outside_of_literals(expression(validated(spec, {name: plain}), ("team",)))


@settings(max_examples=25, deadline=None)
@given(HOSTILE)
def test_milvus_takes_every_value_as_a_value(client: CorpusClient, value: str) -> None:
    try:
        result = client.search_issues("ImagePullBackOff", repo=value, mode="bm25")
    except InvalidArgument:
        return
    # Nothing has such a repository: the filter empties the result, is relaxed once, and the result says so.
    assert result.filters == {} or not value
    assert value == "" or "left out" in result.notes[0]


def test_visibility_is_added_by_the_server_side_and_a_view_cannot_widen_it(client: CorpusClient) -> None:
    question = "how often is the staging dashboard password rotated"
    found = {hit.unit_id for hit in client.search_docs(question).hits}
    assert "site:internal.md#x" in found
    public, team = client.scoped([]), client.scoped(["team-a"])
    assert "site:internal.md#x" not in {hit.unit_id for hit in public.search_docs(question).hits}
    assert "site:internal.md#x" in {hit.unit_id for hit in team.search_docs(question).hits}
    assert "site:internal.md#x" not in {hit.unit_id for hit in public.scoped(["team-a"]).search_docs(question).hits}
    options: dict[str, Any] = {"visibility": "team-a"}
    with pytest.raises(TypeError, match="visibility"):
        public.search_docs(question, **options)
    with pytest.raises(Exception, match="no unit"):
        public.get_unit("site:internal.md#x")
