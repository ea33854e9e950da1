"""Names in code that stand for values elsewhere in the repository, and environment variables."""

from __future__ import annotations

import pytest
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.manifests.crds import CodeContext, collect_context
from kubeflow_corpus.chunking.run import chunk_document
from kubeflow_corpus.records import Chunk, Document
from kubeflow_corpus.tokens import ApproximateCounter

BUDGET = Budget(ApproximateCounter(), 256)
CONSTANTS = """package hives

const (
\t// DefaultSwarmPolicy is the default of spec.swarmPolicy.
\tDefaultSwarmPolicy = NeverSwarm
\tNeverSwarm SwarmPolicyType = "Never"
\tDefaultDrones int = 3 // each on a node
\tqueueEnv = "HIVE_QUEUE"
)

var DefaultHost = env.GetEnvOrDefault(
\tqueueEnv,
\t"hive-queue",
)
"""
USE = """package hives

func (h *Hive) setDefaults() {
\th.Policy = DefaultSwarmPolicy
}
"""


def document(path: str, text: str) -> Document:
    """A source file of a small operator."""
    return Document(f"hives:{path}", "hives", "code", "example/orchard", "", path, "", "", text)


def rows(files: dict[str, str], path: str) -> list[Chunk]:
    """The rows of one file among others."""
    every = [document(name, text) for name, text in files.items()]
    return [*chunk_document(document(path, files[path]), BUDGET, collect_context(every)).chunks]


def test_a_constant_of_the_package_says_value_and_place() -> None:
    row = rows({"pkg/hives/constants.go": CONSTANTS, "pkg/hives/defaults.go": USE}, "pkg/hives/defaults.go")[-1]

    assert row.content_text.endswith('// DefaultSwarmPolicy = NeverSwarm = "Never" (pkg/hives/constants.go:5)')
    # What is found and embedded is the code itself.
    assert "NeverSwarm" not in row.search_text + row.embedding_text


def test_a_file_alone_is_cut_as_before() -> None:
    alone = chunk_document(document("pkg/hives/defaults.go", USE), BUDGET)
    strangers = chunk_document(document("pkg/hives/defaults.go", USE), BUDGET, CodeContext())

    assert alone.chunks == strangers.chunks and "NeverSwarm" not in alone.chunks[-1].content_text


def test_what_a_row_sets_itself_is_not_said_again() -> None:
    found = rows({"pkg/hives/constants.go": CONSTANTS}, "pkg/hives/constants.go")

    assert not any(
        "// NeverSwarm = " in row.content_text for row in found if "NeverSwarm SwarmPolicyType" in row.content_text
    )


@pytest.mark.parametrize(
    ("imported", "used", "said"),
    [
        ('"github.com/example/orchard/pkg/hives"', "hives.DefaultDrones", True),
        ('h "github.com/example/orchard/v2/pkg/hives"', "h.DefaultDrones", True),
        # Another project has a package of the same name.
        ('"github.com/example/meadow/pkg/hives"', "hives.DefaultDrones", False),
        ('"github.com/example/orchard/pkg/hives"', "other.DefaultDrones", False),
        ('"github.com/example/orchard/pkg/hives"', "DefaultDrones", False),
    ],
)
def test_a_qualified_name_is_followed_through_the_imports(imported: str, used: str, said: bool) -> None:
    text = f"package main\n\nimport (\n\t{imported}\n)\n\nfunc main() {{\n\trun({used})\n}}\n"
    found = rows({"pkg/hives/constants.go": CONSTANTS, "cmd/main.go": text}, "cmd/main.go")

    assert any("// DefaultDrones = 3 (pkg/hives/constants.go:7)" in row.content_text for row in found) is said


def test_two_constants_of_one_name_say_nothing() -> None:
    linux, darwin = (f"package hives\n\nconst DefaultRoot = {root}\n" for root in ('"/var"', '"/private"'))
    use = "package hives\n\nfunc root() string {\n\treturn DefaultRoot\n}\n"
    files = {"pkg/hives/a_linux.go": linux, "pkg/hives/a_darwin.go": darwin, "pkg/hives/use.go": use}

    assert "DefaultRoot = " not in rows(files, "pkg/hives/use.go")[-1].content_text


def test_a_field_says_the_default_of_its_name() -> None:
    text = 'package hives\n\ntype HiveSpec struct {\n\tSwarmPolicy SwarmPolicyType `json:"swarmPolicy"`\n}\n'
    row = rows({"pkg/hives/constants.go": CONSTANTS, "pkg/hives/types.go": text}, "pkg/hives/types.go")[-1]

    assert '// DefaultSwarmPolicy = NeverSwarm = "Never" (pkg/hives/constants.go:5)' in row.content_text


@pytest.mark.parametrize(
    ("imports", "used"),
    [
        ("from orchard.hives.constants import QUEUE_SIZE", "QUEUE_SIZE"),
        ("from orchard.hives import constants", "constants.QUEUE_SIZE"),
        ("from . import constants as c", "c.QUEUE_SIZE"),
        ("from .constants import (\n    OTHER,\n    QUEUE_SIZE,\n)", "QUEUE_SIZE"),
        ("import orchard.hives.constants as known", "known.QUEUE_SIZE"),
    ],
)
def test_a_python_name_is_followed_through_the_imports(imports: str, used: str) -> None:
    files = {
        "sdk/orchard/hives/constants.py": "QUEUE_SIZE: int = 12\n",
        "sdk/orchard/hives/client.py": f"{imports}\n\n\ndef send(drone):\n    return push(drone, size={used})\n",
    }
    found = rows(files, "sdk/orchard/hives/client.py")

    assert any("# QUEUE_SIZE = 12 (sdk/orchard/hives/constants.py:1)" in row.content_text for row in found)


def test_an_environment_variable_has_a_row_with_default_and_places() -> None:
    files = {
        "pkg/hives/constants.go": CONSTANTS,
        "pkg/a.go": 'package pkg\n\nfunc a() string {\n\treturn os.Getenv("HIVE_QUEUE")\n}\n',
        "sdk/b.py": 'import os\n\nSIZE = os.environ.get("HIVE_SIZE", "3")\nTOKEN = os.environ["HIVE_TOKEN"]\n'
        'os.environ["HIVE_SET"] = "1"\n',
    }
    made = {
        row.fields["symbol"]: row
        for path in files
        for row in rows(files, path)
        if row.fields["kind"] == "environment variable"
    }

    assert [*made] == ["HIVE_QUEUE", "HIVE_SIZE", "HIVE_TOKEN"]
    # Of all places that read it the first has the row.
    assert made["HIVE_QUEUE"].file_path == "pkg/a.go"
    assert made["HIVE_QUEUE"].content_text.splitlines() == [
        "HIVE_QUEUE: environment variable of example/orchard",
        'Default: "hive-queue"',
        "Read in pkg/a.go:4",
        "Read in pkg/hives/constants.go:11",
    ]
    assert 'Default: "3"' in made["HIVE_SIZE"].content_text
    assert "Default: none" in made["HIVE_TOKEN"].content_text


def test_tests_and_generated_files_name_nothing() -> None:
    use = {"pkg/hives/defaults.go": USE}

    for path in ("pkg/hives/constants_test.go", "pkg/hives/zz_generated.constants.go", "vendor/hives/constants.go"):
        assert "NeverSwarm" not in rows({path: CONSTANTS, **use}, "pkg/hives/defaults.go")[-1].content_text


@pytest.mark.parametrize(
    "text",
    [
        "package a\n\nconst (\n" + "\tA = B\n" * 2_000 + ")\n",
        "package a\n\nconst A = A\n\nfunc a() {\n\tb(A)\n}\n",
        "os.Getenv(" * 5_000,
        "from a import (" + "b,\n" * 5_000,
        "A = (" * 3_000,
    ],
)
def test_hostile_files_are_read_to_their_end(text: str) -> None:
    for path in ("pkg/a.go", "pkg/a.py"):
        rows({path: text}, path)
