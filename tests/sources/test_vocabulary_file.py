"""A vocabulary file: what it adds or replaces, and that every mistake names file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.sources.catalogue import load_catalogue
from kubeflow_corpus.sources.vocabulary_file import PACKAGED, load_vocabulary
from kubeflow_corpus.vocabulary import Product, default_vocabulary

OWN = """\
project: Windmill
products:
  - name: sails
    asked: ['\\bsails?\\b']
  - name: granary
labels:
  area/sails: sails
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "vocabulary.yaml"
    file.write_text(text)
    return file


def refused(folder: Path, text: str) -> str:
    with pytest.raises(CatalogueError) as caught:
        load_vocabulary(written(folder, text))
    return str(caught.value)


def test_the_compiled_copy_is_the_packaged_file() -> None:
    assert load_vocabulary(PACKAGED) == default_vocabulary(), "run `make vocabulary`"


def test_a_vocabulary_that_stands_alone_holds_nothing_else(tmp_path: Path) -> None:
    words = load_vocabulary(written(tmp_path, OWN))

    assert words.areas == ("sails", "granary")
    assert words.labels == (("area/sails", "sails"),)
    assert words.about == "Windmill"
    assert "ubeflow" not in words.to_json()


def test_a_vocabulary_that_extends_the_packaged_one_adds_to_it(tmp_path: Path) -> None:
    more = "extends: default\nproducts:\n  - name: katib\n    asked: [tuner]\n  - name: sails\nbots: [miller]\n"
    words = load_vocabulary(written(tmp_path, more))
    default = default_vocabulary()

    assert words.project == "Kubeflow"
    assert words.areas == (*default.areas, "sails")
    katib = next(product for product in default.products if product.name == "katib")
    assert Product("katib", (*katib.asked, "tuner"), katib.listed) in words.products
    assert words.bots == (*default.bots, "miller")


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        (OWN.replace("products:", "product:"), 2, "Did you mean products"),
        (OWN.replace("labels:\n  area/sails: sails", "labels:\n  area/sails: sials"), 7, "Did you mean sails"),
        (OWN.replace("name: granary", "name: sails"), 5, "there is already a product"),
        (OWN.replace("name: granary", "name: Granary"), 5, "lower-case"),
        (OWN.replace("sails?", "(sails?"), 4, "not a regular expression"),
        (OWN.replace("sails?", "(sails)"), 4, "capturing group"),
        (OWN.replace("'\\bsails?\\b'", "'x*'"), 4, "empty text"),
        (OWN.replace("sails?", "Sails?"), 4, "capitals"),
        (OWN.replace("project: Windmill", "about: Mills"), 1, "no key 'project'"),
        (OWN.replace("project: Windmill", "extends: defaults"), 1, "Did you mean default"),
        (OWN + "mdx_components:\n  Gear: feild\n", 9, "Did you mean field"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path: Path, text: str, line: int, part: str) -> None:
    message = refused(tmp_path, text)

    assert f"{tmp_path / 'vocabulary.yaml'}:{line}: " in message
    assert part in message


def test_a_vocabulary_too_large_for_a_property_is_refused(tmp_path: Path) -> None:
    assert "65536 bytes" in refused(tmp_path, OWN + f"bots: [{'x' * 70_000}]\n")


def test_a_catalogue_takes_its_products_from_the_vocabulary_that_it_names(tmp_path: Path) -> None:
    written(tmp_path, OWN)
    file = tmp_path / "catalogue.yaml"
    entry = "  - {name: a, type: issue, repo: mills/windmill, product_area: AREA}\n"
    file.write_text("vocabulary: vocabulary.yaml\nsources:\n" + entry.replace("AREA", "granary"))

    catalogue = load_catalogue(file)

    assert catalogue.vocabulary.project == "Windmill"
    assert catalogue.sources[0].labels == (("area/sails", "sails"),)
    file.write_text("vocabulary: vocabulary.yaml\nsources:\n" + entry.replace("AREA", "granery"))
    with pytest.raises(CatalogueError, match=r"catalogue\.yaml:3: there is no product area 'granery'.*granary"):
        load_catalogue(file)
    file.write_text("vocabulary: vocabulary.yaml\nsources:\n" + entry.replace("AREA", "katib"))
    with pytest.raises(CatalogueError, match="Known areas: sails, granary"):
        load_catalogue(file)


def test_a_vocabulary_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text("vocabulary: words.yaml\nsources: []\n")

    with pytest.raises(CatalogueError, match=r"words\.yaml: it cannot be read"):
        load_catalogue(file)
