"""``kubeflow-corpus inspect``: how one file is cut into rows or why it is skipped, or pages beside their built site."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.docs.built_site import compare_site, compared
from kubeflow_corpus.chunking.inspection import inspect_document, readable
from kubeflow_corpus.chunking.run import chunk_documents
from kubeflow_corpus.errors import InvalidArgument, SourceError
from kubeflow_corpus.records import Document
from kubeflow_corpus.sources import checkout
from kubeflow_corpus.sources.catalogue import Catalogue, Source, load_catalogue
from kubeflow_corpus.sources.checkout import Revision, blob_url, source_type_of
from kubeflow_corpus.sources.decoding import decode
from kubeflow_corpus.tokens import wordpiece_counter

# What the embedded model reads; 384 is what all-mpnet-base-v2 reads.
DEFAULT_BUDGET: Final = 256
_MAX_BYTES: Final = 8_000_000
# Where a file belongs that no source of the catalogue selects.
_TYPES: Final = {".md": "docs", ".mdx": "docs", ".markdown": "docs", ".yaml": "manifest", ".yml": "manifest"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "path", metavar="PATH", nargs="?", default="", help="a file, or with --source a path in that source's folder"
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="BUILT_SITE",
        help="instead: compare all pages of --source with the folder that its site generator built",
    )
    parser.add_argument("--source", default="", metavar="NAME", help="the catalogue entry whose site and rules apply")
    parser.add_argument("--catalogue", default="", metavar="FILE", help="default: the packaged catalogue")
    parser.add_argument(
        "--budget",
        type=int,
        default=DEFAULT_BUDGET,
        metavar="N",
        help="tokens that the model reads (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Shows how one file is cut.

    Raises:
        CatalogueError: The catalogue is wrong, or has no such source.
        SourceError: The file cannot be read.
    """
    catalogue = load_catalogue(args.catalogue)
    source = catalogue.select(names=[args.source])[0] if args.source else None
    if args.against:
        return _against(source, catalogue, Path(args.against), args.budget)
    if not args.path:
        raise InvalidArgument("inspect has no PATH", remedy="Name a file, or a built site with --against")
    document = _document(Path(args.path), source, catalogue)
    inspection = inspect_document(document, Budget(wordpiece_counter(), max(args.budget, 16)), catalogue.vocabulary)
    if args.json:
        print(json.dumps(inspection, ensure_ascii=False, indent=2))
    else:
        print("\n".join(readable(inspection)))
    return 0


def _against(source: Source | None, catalogue: Catalogue, built: Path, tokens: int) -> int:
    """Compares all pages of a docs source with its built site; 1 where an anchor or a page is wrong."""
    if source is None or source.site is None or not source.site.base_url or not built.is_dir():
        raise InvalidArgument(
            "--against needs --source with a docs source that has a site, and the folder of its built pages",
            remedy="Build the site first, then: inspect --source NAME --against FOLDER",
        )
    budget = Budget(wordpiece_counter(), max(tokens, 16))
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        items = checkout.fetch_documents(source, checkout.resolve_revision(source), Path(folder))
        documents = [item for item in items if isinstance(item, Document)]
    cut = chunk_documents(documents, budget, vocabulary=catalogue.vocabulary)
    pages = ((document.path, chunked.chunks) for document, chunked in zip(documents, cut, strict=True))
    results = list(compare_site(pages, source.site.base_url, built))
    print("\n".join(compared(results)))
    return 1 if any(page.wrong or page.unbuilt for page in results) else 0


def _document(path: Path, source: Source | None, catalogue: Catalogue) -> Document:
    folder = source.local_path if source is not None else None
    file = path if path.exists() or folder is None else folder / path
    text = _text(file)
    if source is None:
        source, relative = _owner(file, catalogue)
    else:
        relative = _relative(file, source)
    if source is None:
        kind = "docs" if file.suffix == ".json" else _TYPES.get(file.suffix.lower(), "code")
        return Document(file.name, "", kind, "", "", file.as_posix(), file.resolve().as_uri(), "", text)  # type: ignore[arg-type]
    site = source.site
    metadata = {
        "product_area": list(source.areas(relative)),
        "version": list(source.versions(relative)),
        "site": site.to_dict() if site is not None else {},
    }
    url = blob_url(source, Revision(source.ref, ""), relative)
    kind = source_type_of(source, relative)
    return Document(f"{source.name}:{relative}", source.name, kind, source.repo, "", relative, url, "", text, metadata)


def _owner(file: Path, catalogue: Catalogue) -> tuple[Source | None, str]:
    """Returns the source that a file belongs to, and its path there.

    That is the local source whose folder it lies in, or else one that a folder above it is named after.
    """
    parts = file.resolve().parts
    for source in catalogue.sources:
        folder = source.local_path
        inside = folder is not None and file.resolve().is_relative_to(folder.resolve())
        if inside or source.name in parts:
            relative = _relative(file, source)
            if source.selects(relative):
                return source, relative
    return None, ""


def _relative(file: Path, source: Source) -> str:
    """Returns the path of a file in its repository.

    A file outside the source's folder is taken to lie below a folder named after the source or its repository, in a
    checkout, or else at the path as it is given.
    """
    resolved = file.resolve()
    folder = source.local_path
    if folder is not None and resolved.is_relative_to(folder.resolve()):
        return resolved.relative_to(folder.resolve()).as_posix()
    names = (source.name, source.repo.rsplit("/", 1)[-1])
    named = next((parent for parent in resolved.parents if parent.name in names), None)
    root = named or next((parent for parent in resolved.parents if (parent / ".git").exists()), None)
    if root is not None:
        return resolved.relative_to(root).as_posix()
    return file.as_posix().lstrip("/")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise SourceError(f"{file} is larger than {_MAX_BYTES} bytes", remedy="Such files are not indexed")
        text, problem = decode(file.read_bytes())
    except OSError as error:
        raise SourceError(
            f"{file} cannot be read: {error.strerror}",
            remedy="Give the path of a file, or --source and a path in it",
            path=str(file),
        ) from error
    if problem:
        raise SourceError(f"{file} would be skipped: {problem}", remedy="Such files are not indexed", path=str(file))
    return text
