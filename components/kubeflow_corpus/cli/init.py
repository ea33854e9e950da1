"""``kubeflow-corpus init``: a catalogue for a project that nobody has described, ready to run."""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sources.catalogue import CATALOGUE_FILE, REPO_NAME, UNHOSTED, Source, load_catalogue
from kubeflow_corpus.sources.checkout import open_tree, resolve_revision
from kubeflow_corpus.sources.decoding import decode
from kubeflow_corpus.sources.discovery import LEFT_OUT, Findings, FoundSite, discover, slug

_MAX_BYTES: Final = 1_000_000
_ORIGIN: Final = re.compile(
    r"^\s*url\s*=\s*\S*?github\.com[:/]([\w-]{1,39}/[\w.-]{1,100}?)(?:\.git)?\s*$", re.MULTILINE
)
# The pipeline that reads sources of a type.
_PIPELINES: Final = {"docs": "docs", "code": "code", "issue": "issues"}
_VOCABULARY: Final = "vocabulary.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("project", metavar="REPO_OR_FOLDER", help="owner/name on GitHub, an https address or a folder")
    parser.add_argument("--ref", default="HEAD", help="branch, tag or commit (default: the default branch)")
    parser.add_argument(
        "--repo", default="", metavar="OWNER/NAME", help="where a folder is on GitHub, if its remote does not say it"
    )
    parser.add_argument("--out", default=".", metavar="FOLDER", help=f"where {CATALOGUE_FILE} and {_VOCABULARY} go")
    parser.add_argument("--force", action="store_true", help="replace files that are there")


def run(args: argparse.Namespace) -> int:
    """Looks through a repository, writes the catalogue and prints what a run would index.

    Raises:
        InvalidArgument: There is nothing of that name, or a file is there already.
        SourceError: The repository cannot be read.
    """
    out = Path(args.out)
    files = (out / CATALOGUE_FILE, out / _VOCABULARY)
    there = [str(file) for file in files if file.exists() and not args.force]
    if there:
        raise InvalidArgument(f"{there[0]} is there already", remedy="Name another folder with --out, or use --force")
    source, is_github = _source(args.project, args.repo, args.ref)
    found = _look_through(source)
    if not (found.sites or found.markdown or found.languages):
        raise InvalidArgument(
            f"{args.project} holds no documentation and no code that is read", remedy="Name another folder or branch"
        )
    out.mkdir(parents=True, exist_ok=True)
    files[0].write_text("\n".join(_catalogue(found, source, is_github)) + "\n", encoding="utf-8")
    files[1].write_text("\n".join(_vocabulary(found)) + "\n", encoding="utf-8")
    catalogue = load_catalogue(files[0])
    print("\n".join(_report(found, is_github)))
    kinds = dict.fromkeys(_PIPELINES[source.type] for source in catalogue.sources)
    print(f"\nWritten: {files[0]} ({len(catalogue.sources)} sources) and {files[1]}. Look through both, then:")
    print(f"  export MILVUS_URI=local/{slug(found.project)}.db")
    for kind in kinds:
        token = "GITHUB_TOKEN=... " if kind == "issues" else ""
        print(f"  {token}kubeflow-corpus run {kind} --catalogue {files[0]}")
    print(f'  kubeflow-corpus search {next(iter(kinds))} "What is {found.project}?"')
    return 0


def _source(project: str, repo: str, ref: str) -> tuple[Source, bool]:
    """Returns where the files are, and whether the name on GitHub is known."""
    folder = Path(project)
    if folder.is_dir():
        config = folder / ".git/config"
        origin = _ORIGIN.search(config.read_text("utf-8", "replace")) if config.is_file() else None
        named = repo or (origin[1] if origin else "")
        name = named or f"{UNHOSTED}/{slug(folder.resolve().name)}"
        return Source("init", "docs", name, str(folder.resolve()), ref), bool(named)
    address = re.fullmatch(r"https://github\.com/([\w-]{1,39}/[\w.-]{1,100}?)(?:\.git)?/?", project)
    name = address[1] if address else project
    if REPO_NAME.fullmatch(name):
        return Source("init", "docs", name, f"https://github.com/{name}", ref), True
    if "://" in project:
        parts = [slug(part) for part in project.rstrip("/").removesuffix(".git").split("/")[-2:]]
        return Source("init", "docs", repo or "/".join(parts), project, ref), bool(repo)
    raise InvalidArgument(
        f"{project!r} is neither a folder nor a repository", remedy="Write owner/name, an https address or a folder"
    )


def _look_through(source: Source) -> Findings:
    revision = resolve_revision(source)
    with (
        tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder,
        open_tree(source, revision, Path(folder)) as tree,
    ):
        entries = {entry.path: entry for entry in tree.entries() if not entry.problem}

        def read(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
            for content in tree.contents((entries[path], _MAX_BYTES) for path in paths):
                yield content.entry.path, "" if content.problem else decode(content.data)[0]

        return discover(source.repo, entries, read)


def _catalogue(found: Findings, source: Source, is_github: bool) -> Iterator[str]:
    """Yields the lines of the catalogue."""
    name = slug(found.project)
    where = [f"    repo: {source.repo}"]
    if source.local_path is not None or source.url != f"https://github.com/{source.repo}":
        where.append(f"    url: {_yaml(source.url)}")
    if source.ref != "HEAD":
        where.append(f"    ref: {_yaml(source.ref)}")
    yield f"# What `kubeflow-corpus init` found in {source.repo}. Every key: docs/reference/catalogue.md"
    yield f"vocabulary: {_VOCABULARY}"
    yield "sources:"
    for number, site in enumerate(site for site in found.sites if site.pages > site.unread):
        yield from _site_entry(f"{name}-docs" + (f"-{number + 1}" if number else ""), site, where, found)
    if found.markdown:
        yield "  # Pages that no site shows: they are read, and cited, where the repository has them."
        yield from (f"  - name: {name}-pages", "    type: docs", *where)
        shown = [f"{site.folder}/**" for site in found.sites if site.folder]
        yield f"    include: {_yaml(sorted({_pages_pattern(path) for path in found.markdown}))}"
        yield f"    exclude: {_yaml([*_left_out(), *shown])}"
        yield from _areas(found)
        yield "    site: {generator: markdown}"
    if found.languages:
        yield from (f"  - name: {name}-code", "    type: code", *where, f"    exclude: {_yaml(_left_out())}")
        yield from _areas(found)
    if is_github:
        yield from (
            f"  - name: {name}-issues",
            "    type: issue",
            f"    repo: {source.repo}",
            f"    product_area: {name}",
        )


def _site_entry(name: str, found: FoundSite, where: list[str], findings: Findings) -> Iterator[str]:
    site = found.site
    yield f"  # {found.config}: {site.generator}, {found.pages} pages"
    yield from (f"  - name: {name}", "    type: docs", *where)
    pages = generator_named(site.generator).page_patterns
    yield f"    include: {_yaml([f'{site.root}/{pattern}' if site.root else pattern for pattern in pages])}"
    yield from _areas(findings)
    yield "    site:"
    yield f"      generator: {site.generator}"
    if site.root:
        yield f"      root: {_yaml(site.root)}"
    if site.base_url:
        guess = "  # a guess: no configuration says it" if found.guessed else ""
        yield f"      base_url: {_yaml(site.base_url)}{guess}"
    else:
        yield "      # base_url: where it is published"
    if site.params:
        yield f"      params: {_yaml(dict(site.params))}"


def _areas(found: Findings) -> Iterator[str]:
    name = slug(found.project)
    rules = [(pattern, product) for product, patterns in found.products.items() for pattern in patterns]
    if not rules:
        yield f"    product_area: {name}"
        return
    yield "    product_area:"
    yield from (f"      {_yaml(pattern)}: {product}" for pattern, product in rules)
    yield f'      "**": {name}'


def _yaml(value: Any) -> str:
    """Returns a value on one line: JSON is YAML, as long as letters of any script are written as they are."""
    return json.dumps(value, ensure_ascii=False)


def _left_out() -> list[str]:
    return [f"**/{folder}/**" for folder in LEFT_OUT]


def _pages_pattern(path: str) -> str:
    top, slash, _ = path.partition("/")
    return f"{top}/**/*.{{md,markdown}}" if slash else "*.md"


def _vocabulary(found: Findings) -> Iterator[str]:
    """Yields the lines of the vocabulary."""
    yield "# The words of the project: its products, and the ways in which people write them (small letters)."
    yield f"project: {_yaml(found.project)}"
    yield "products:"
    for product in found.products:
        pattern = rf"\b{product.replace('-', '[ -]?')}\b"
        yield from (f"  - name: {product}", f"    asked: [{_yaml(pattern)}]")


def _report(found: Findings, is_github: bool) -> Iterator[str]:
    """Yields what was found, in lines for people."""
    yield f"{found.repo}:"
    for site in found.sites:
        guess = " (a guess: check base_url)" if site.guessed else ""
        root, address = site.site.root or ".", site.site.base_url or "published nowhere: cited as files"
        yield f"  docs   {site.site.generator} site in {root}: {site.pages} pages, {address}{guess}"
        if site.unread:
            yield f"         {site.unread} of them are reStructuredText, which is not read"
    if found.markdown:
        yield f"  docs   {len(found.markdown)} Markdown files outside of a site"
    if found.languages:
        yield "  code   " + ", ".join(f"{count} {name}" for name, count in found.languages.items())
    if found.crds:
        yield f"  code   {found.crds} files with custom resource definitions"
    yield "  issues " + (f"of github.com/{found.repo}" if is_github else "none: --repo OWNER/NAME says where they are")
    if len(found.products) > 1:
        yield f"  products by folder: {', '.join(found.products)}"
