"""Copies of a CRD in several repositories of one catalogue, through the steps of a run: the owner's is the one kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeflow_corpus.artifacts import read_chunks, read_jsonl
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.runner import RunFolders, fetch_and_chunk
from kubeflow_corpus.ingest.sources import resolve_revision
from kubeflow_corpus.ingest.step import SKIPS_FILE, fresh_folder, read_source, write_result
from kubeflow_corpus.model import ModelIdentity, make_recipe
from kubeflow_corpus.records import Chunk
from kubeflow_corpus.sources.catalogue import load_catalogue
from kubeflow_corpus.vocabulary import default_vocabulary

OWNER, COPIER = "kubeflow/trainer", "kubeflow/community-distribution"
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ploughs.trainer.kubeflow.org
spec:
  group: trainer.kubeflow.org
  names:
    kind: Plough
    plural: ploughs
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              depth:
                type: integer
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: ploughs\n"


@dataclass(frozen=True, slots=True)
class Result:
    """What the steps made of one source."""

    rows: Sequence[Chunk]
    skips: Sequence[dict[str, Any]]
    left_out: Mapping[str, int]

    @property
    def kinds(self) -> set[str]:
        return {str(row.fields["kind"]) for row in self.rows}


def catalogue_of(folder: Path, *repos: str) -> str:
    """A catalogue of two folders at most: the owner's CRD, and a copy of it beside a Deployment."""
    files = {OWNER: {"manifests/crd.yaml": CRD}, COPIER: {"upstream/crd.yaml": CRD, "upstream/deploy.yaml": DEPLOYMENT}}
    entries = []
    for repo in repos:
        name = repo.partition("/")[2]
        for path, text in files[repo].items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
        entries.append(f"  - {{name: {name}, type: code, repo: {repo}, url: {name}, product_area: trainer}}\n")
    file = folder / "catalogue.yaml"
    file.write_text("sources:\n" + "".join(entries))
    return str(file)


def state(folder: Path, catalogue: str) -> str:
    """What `read_state` leaves of a collection that is empty."""
    recipe = make_recipe(ModelIdentity("none", "1", 384, 256))
    options = RunOptions(catalogue=catalogue)
    result = StepResult(collection="code", step="read_state", options=options, recipe=recipe)
    write_result(fresh_folder(str(folder / "state")), result)
    return str(folder / "state")


def run(catalogue: str, repo: str, work: Path) -> Result:
    folders = RunFolders(work)
    known = state(work, catalogue)
    source = resolve_revision(repo.partition("/")[2], known).to_json()
    (chunks,) = fetch_and_chunk("code", [source], known, folders)
    result = read_source(chunks)
    assert result.ok, result.error
    rows = tuple(read_chunks(folders.rows(result.source)))
    return Result(rows, tuple(read_jsonl(Path(chunks) / SKIPS_FILE)), result.left_out)


def resolved(catalogue: str, folder: Path) -> SourceState:
    return resolve_revision("community-distribution", state(folder, catalogue))


def test_a_copy_gives_way_to_the_owner_and_is_counted(tmp_path: Path) -> None:
    catalogue = catalogue_of(tmp_path, OWNER, COPIER)
    copied = run(catalogue, COPIER, tmp_path / "copied")
    assert copied.kinds == {"Deployment"}
    assert [(skip["path"], skip["reason"]) for skip in copied.skips] == [("upstream/crd.yaml", "crd_duplicate")]
    assert copied.left_out == {"crd_duplicate": 1}
    owned = run(catalogue, OWNER, tmp_path / "owned")
    assert owned.kinds == {"CustomResourceDefinition", "Plough"}
    assert owned.skips == ()
    assert {row.repo for row in owned.rows} == {OWNER}


def test_a_copy_is_kept_where_the_catalogue_does_not_have_the_owner(tmp_path: Path) -> None:
    copied = run(catalogue_of(tmp_path, COPIER), COPIER, tmp_path / "copied")
    assert copied.kinds == {"CustomResourceDefinition", "Plough", "Deployment"}
    assert copied.skips == ()


def test_a_source_is_cut_again_once_the_owner_of_what_it_copies_is_added(tmp_path: Path) -> None:
    catalogue = catalogue_of(tmp_path, COPIER)
    before = resolved(catalogue, tmp_path)
    assert resolved(catalogue, tmp_path) == before
    catalogue_of(tmp_path, OWNER, COPIER)
    assert resolved(catalogue, tmp_path) != before


def test_every_owner_of_a_crd_is_a_code_source_of_the_packaged_catalogue() -> None:
    repos = {source.repo for source in load_catalogue().sources if source.type == "code"}
    assert set(dict(default_vocabulary().crd_owners).values()) - repos == set()
