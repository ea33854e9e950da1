"""The words of a project: their JSON form, what a collection records, and where no module may hold any."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import kubeflow_corpus
import pytest
from kubeflow_corpus.vocabulary import Product, Vocabulary, default_vocabulary, every_pattern, recorded_vocabulary

MILL = Vocabulary("Windmill", products=(Product("sails", (r"\bsails\b",)),), crd_owners=(("mill.example", "a/b"),))


@pytest.mark.parametrize("words", [MILL, default_vocabulary()])
def test_the_json_form_says_everything(words: Vocabulary) -> None:
    assert Vocabulary.from_dict(words.to_dict()) == words
    assert pickle.loads(pickle.dumps(words)).digest == words.digest


def test_a_collection_records_only_what_is_not_packaged() -> None:
    assert default_vocabulary().to_property() == ""
    assert recorded_vocabulary("") is default_vocabulary()
    assert recorded_vocabulary(MILL.to_property()) == MILL


@pytest.mark.parametrize("text", ["{", "[]", '{"colour": "red"}', '{"project": "x", "latest": ["("]}', "1"])
def test_a_record_that_cannot_be_read_costs_no_search(text: str) -> None:
    assert recorded_vocabulary(text) is default_vocabulary()


def test_every_packaged_pattern_can_be_joined_with_others() -> None:
    assert all(re.compile(f"(?:{pattern}|x)").groups == 0 for pattern in every_pattern(default_vocabulary()))


def test_the_packaged_words_are_read_without_a_yaml_parser() -> None:
    code = (
        "import sys; from kubeflow_corpus.vocabulary import default_vocabulary; default_vocabulary(); "
        "print([name for name in sys.modules if 'yaml' in name])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# Words of texts that are about the package or about Kubernetes software, not about what a corpus holds.
ALLOWED = re.compile(
    r"kubeflow[_-](?:corpus|docs)|KUBEFLOW_CORPUS|(?:search|upsert)_kubeflow_\w+|Kubeflow Pipelines|kubeflow\.org", re.I
)
NAMES = re.compile(r"\b(?:kubeflow|katib|kserve|kfserving|kfctl|centraldashboard|trainjobs?|poddefaults?)\b", re.I)
# What the contract writes into its throw-away collection.
SAMPLES = ("operations/contract/promises.py", "operations/contract/trial.py")


def test_no_module_knows_a_product_by_name() -> None:
    package = Path(kubeflow_corpus.__file__).parent
    found = []
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).as_posix() in SAMPLES:
            continue
        text = re.sub(r'"""(?:.|\n)*?"""', lambda match: "\n" * match.group().count("\n"), file.read_text())
        for number, line in enumerate(text.split("\n"), 1):
            if NAMES.search(ALLOWED.sub("", line)):
                found.append(f"{file.relative_to(package)}:{number}: {line.strip()}")
    assert found == []
