"""One exception tree: every error carries its remedy and its fields, survives pickling, and is documented."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import get_args

import pytest
from kubeflow_corpus import errors
from kubeflow_corpus.errors import Code, CorpusError, SourceError, UnknownRef

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, CorpusError)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_known_code_and_crosses_process_boundaries_whole(cls: type[CorpusError]) -> None:
    error = cls("repository kubeflow/nowhere is missing", remedy="Check the catalogue", source="website", line=7)
    again = pickle.loads(pickle.dumps(error))
    assert cls.code in get_args(Code)
    assert type(again) is cls
    assert (again.problem, again.remedy, again.fields) == (error.problem, error.remedy, error.fields)


def test_the_text_is_the_problem_and_then_the_remedy() -> None:
    assert str(CorpusError("No such file", remedy="Check the path")) == "No such file. Check the path"
    assert str(CorpusError("No such file")) == "No such file"


def test_a_family_is_caught_by_its_base() -> None:
    with pytest.raises(SourceError) as caught:
        raise UnknownRef("There is no branch v9", source="website")
    assert caught.value.code == "NOT_FOUND"


def test_the_tree_in_the_module_docstring_is_the_tree() -> None:
    documented: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            documented[match[2]] = path[depth - 1] if depth else "Exception"
    assert documented == {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES}
