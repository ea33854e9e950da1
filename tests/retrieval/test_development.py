import json
from pathlib import Path

import pytest
from kubeflow_corpus.sources.catalogue import load_catalogue

from tests.retrieval import development


def test_the_catalogue_of_the_real_sources_has_the_packaged_rules_and_local_folders(tmp_path: Path) -> None:
    for folder in ("docs/kubeflow-website", "manifests/katib"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "catalogue.yaml"
    file.write_text(json.dumps(development.catalogue(tmp_path)))
    packaged = {source.name: source for source in load_catalogue().sources}
    found = load_catalogue(file).sources
    assert [(source.name, source.url) for source in found] == [
        ("kubeflow-website", str(tmp_path / "docs/kubeflow-website")),
        ("katib-code", str(tmp_path / "manifests/katib")),
    ]
    for source in found:
        assert (source.include, source.product_area) == (
            packaged[source.name].include,
            packaged[source.name].product_area,
        )


def test_where_the_questions_are_not_there_it_says_so_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(development, "QUESTIONS", tmp_path / "none.jsonl")
    monkeypatch.setattr(development, "LOCAL", tmp_path / "local")
    assert development.main([]) == 0
    assert "skipped: no development questions" in capsys.readouterr().out
    assert not (tmp_path / "local").exists()
