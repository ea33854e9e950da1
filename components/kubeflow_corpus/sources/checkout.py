"""Docs and code sources: which commit a ref is, and the files of that commit as documents.

A source is a git repository (https, loopback http, ``file://``, or a folder that is a clone) or a plain folder. A clone
is read as committed, at its ref; a plain folder as it lies there. The revision of a plain folder is the sha256 of its
selected files, and its time is empty: file times change with every copy and say nothing about the text.

Every selected file is either a `Document` or a `Skip` with a reason of `decoding.REASONS`, in the order of the paths.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceError,
    SourceForbidden,
    SourceRefused,
    SourceUnauthenticated,
    UnknownRef,
)
from kubeflow_corpus.records import Document, Skip, SourceType
from kubeflow_corpus.settings import DEFAULT_GITHUB_API_URL, Secret, Settings
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sources.catalogue import Source, is_unhosted, refused_ref, refused_url
from kubeflow_corpus.sources.companions import Companions
from kubeflow_corpus.sources.decoding import MAX_BYTES, decode, unsafe_path
from kubeflow_corpus.sources.folder import FolderTree, digest, fingerprint
from kubeflow_corpus.sources.git.command import DEFAULT_LIMITS, Access, Git, TransferLimits, authorization
from kubeflow_corpus.sources.git.repository import GitRepository, make_bare, marked_generated
from kubeflow_corpus.sources.trees import Content, Entry, Tree

_T = TypeVar("_T")
_FULL_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_COMMIT: Final = re.compile(r"[0-9a-f]{4,63}")
_KNOWN_SHOWN: Final = 5
_ATTRIBUTE_FILE: Final = ".gitattributes"
# Each costs a git call; no project comes near.
_MAX_ATTRIBUTE_FILES: Final = 1000
_SITE_FILE_BYTES: Final = 200_000
_MANIFEST_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Revision:
    """What a source holds at one moment.

    Attributes:
        commit: Commit id, or the digest of a plain folder.
        committed_at: The commit's time, ISO 8601 UTC; empty for a plain folder.
    """

    commit: str
    committed_at: str = ""


def resolve_revision(
    source: Source, settings: Settings | None = None, limits: TransferLimits = DEFAULT_LIMITS
) -> Revision:
    """Finds the commit that a source's ref means now.

    Args:
        source: A docs or code source.
        settings: Where ``GITHUB_TOKEN`` comes from; None reads the environment.
        limits: What the source may cost.

    Raises:
        RepositoryNotFound: There is no such repository or folder.
        UnknownRef: It has no such branch, tag or commit; the error names refs that are near.
        SourceUnreachable: The host does not answer.
        SourceUnauthenticated: The host wants credentials.
        SourceRefused: Address or ref are not safe.
    """
    _refuse_unsafe(source)
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        workdir = Path(folder)
        if _is_plain_folder(source):
            return _folder_revision(source, workdir, limits)
        return _with_access(source, settings, lambda access: _resolve(source, access, workdir, limits))


def fetch_documents(
    source: Source,
    revision: Revision,
    workdir: Path,
    settings: Settings | None = None,
    limits: TransferLimits = DEFAULT_LIMITS,
    named: Collection[str] | None = None,
) -> Iterator[Document | Skip]:
    """Streams the files of a source at a revision.

    One file is in memory at a time. The repository is kept in a folder of its own below `workdir` while the stream is
    read, and removed after it.

    Args:
        source: A docs or code source.
        revision: What `resolve_revision` gave.
        workdir: A folder for the fetched objects.
        settings: Where ``GITHUB_TOKEN`` comes from; None reads the environment.
        limits: What the source may cost.
        named: Only these paths, and only their contents are fetched; None is every file. One that the source does
            not hold or does not select is passed over.

    Yields:
        A `Document` or a `Skip` for every selected file, sorted by path.

    Raises:
        SourceError: As `resolve_revision`; also where a plain folder changed while it was read.
    """
    _refuse_unsafe(source)
    with open_tree(source, revision, workdir, settings, limits) as tree:
        yield from _documents(source, revision, tree, named)


def blob_url(source: Source, revision: Revision, path: str) -> str:
    """Returns the address at which a person reads a file.

    Args:
        source: Its source; a local one is shown at github.com, where its `repo` is, or at the file itself if it is
            on no host.
        revision: The revision; the copy in a plain folder is shown at the commit that `ref` names, or else at the
            default branch.
        path: Its path.
    """
    if source.local_path is not None and is_unhosted(source.repo):
        return (source.local_path / path).as_uri()
    parts = urlsplit(source.url)
    web = source.local_path is None
    base = source.url.removesuffix("/").removesuffix(".git") if web else f"https://github.com/{source.repo}"
    commit = source.ref if _is_plain_folder(source) else revision.commit
    blob = "-/blob" if web and (parts.hostname or "").startswith("gitlab.") else "blob"
    return f"{base}/{blob}/{quote(commit)}/{quote(path)}"


def source_type_of(source: Source, path: str) -> SourceType:
    """Returns what a file of a source is: ``docs``, or ``manifest`` for the YAML of a code source, else ``code``."""
    if source.type == "docs":
        return "docs"
    return "manifest" if path.lower().endswith(_MANIFEST_SUFFIXES) else "code"


def _documents(
    source: Source, revision: Revision, tree: Tree, named: Collection[str] | None
) -> Iterator[Document | Skip]:
    entries, extras, known = _selection(source, tree)
    if named is not None:
        entries = [entry for entry in entries if entry.path in named]
    attributes = [entry for entry in extras if entry.path.endswith(_ATTRIBUTE_FILE)][:_MAX_ATTRIBUTE_FILES]
    readable = [entry.path for entry in entries if not entry.problem]
    generated = tree.generated(attributes, readable) if source.type == "code" else set()
    config = [] if source.type == "code" else list(tree.contents((entry, _SITE_FILE_BYTES) for entry in extras))
    site = _site(source, config)
    companions = Companions(source.site, tree, known)
    total = hashlib.sha256()
    for content in config:
        total.update(fingerprint(content))
    for content, files in companions.beside(_contents(source, tree, entries)):
        total.update(fingerprint(content))
        item = _document(source, revision, content, site, generated)
        if files and isinstance(item, Document):
            item = replace(item, metadata={**item.metadata, "files": files})
        yield item
    for content in companions.read:
        total.update(fingerprint(content))
    # The digest is over every file: what was read of some of them says nothing about it.
    if named is None and isinstance(tree, FolderTree) and total.hexdigest() != revision.commit:
        raise SourceError(
            f"{source.name}: {source.url} changed while it was read, or since its revision was taken",
            remedy="Run again while nothing writes there",
            source=source.name,
        )


def _contents(source: Source, tree: Tree, entries: Iterable[Entry]) -> Iterator[Content]:
    entries = list(entries)
    good = tree.contents(
        (entry, MAX_BYTES[source_type_of(source, entry.path)]) for entry in entries if not entry.problem
    )
    for entry in entries:
        yield Content(entry, problem=entry.problem) if entry.problem else next(good)


def _selection(source: Source, tree: Tree) -> tuple[list[Entry], list[Entry], dict[str, Entry]]:
    """Returns the entries that the source selects, sorted by path, those that say something about them, and others.

    The others are what pages of a site may show: every entry that can be read.
    """
    wanted: list[Entry] = []
    extras: list[Entry] = []
    known: dict[str, Entry] = {}
    for entry in tree.entries():
        if source.selects(entry.path):
            unsafe = not entry.problem and unsafe_path(entry.path)
            wanted.append(Entry(entry.path, "unsafe_path", entry.key) if unsafe else entry)
        if _is_extra(source, entry):
            extras.append(entry)
        if source.type == "docs" and not entry.problem and not unsafe_path(entry.path):
            known[entry.path] = entry
    folders = {parent for entry in wanted for parent in _folders(entry.path)}
    near = [entry for entry in extras if source.type == "docs" or _parent(entry.path) in folders]
    by_path = attrgetter("path")
    return sorted(wanted, key=by_path), sorted(near, key=by_path), known


def _folders(path: str) -> Iterator[str]:
    while path:
        path = _parent(path)
        yield path


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_extra(source: Source, entry: Entry) -> bool:
    if entry.problem or unsafe_path(entry.path):
        return False
    if source.type == "code":
        return entry.path == _ATTRIBUTE_FILE or entry.path.endswith(f"/{_ATTRIBUTE_FILE}")
    site = source.site
    return site is not None and generator_named(site.generator).is_config(entry.path, site)


def _site(source: Source, config: Iterable[Content]) -> dict[str, Any]:
    site = source.site
    if site is None:
        return {}
    files = {content.entry.path: content.data for content in config if not content.problem}
    params = generator_named(site.generator).read_config(files, site)
    return replace(site, params={**params, **site.params}).to_dict()


def _document(
    source: Source, revision: Revision, content: Content, site: dict[str, Any], generated: set[str]
) -> Document | Skip:
    path = content.entry.path
    key = f"{source.name}:{path}"
    text, problem = ("", content.problem) if content.problem else decode(content.data)
    if problem:
        return Skip(key, path, problem, f"{content.size} bytes" if problem == "too_large" else "")
    metadata: dict[str, Any] = {
        "product_area": list(source.areas(path)),
        "version": list(source.versions(path)),
        "updated_at": revision.committed_at,
    }
    metadata |= {"site": site} if source.type == "docs" else {"generated": path in generated}
    return Document(
        document_id=key,
        source=source.name,
        source_type=source_type_of(source, path),
        repo=source.repo,
        revision=revision.commit,
        path=path,
        url=blob_url(source, revision, path),
        title="",
        text=text,
        metadata=metadata,
    )


@contextmanager
def open_tree(
    source: Source,
    revision: Revision,
    workdir: Path,
    settings: Settings | None = None,
    limits: TransferLimits = DEFAULT_LIMITS,
) -> Iterator[Tree]:
    """Opens the tree of a source at a revision; what was fetched of it is removed in the end.

    Args:
        source: A docs or code source.
        revision: What `resolve_revision` gave.
        workdir: A folder for the fetched objects.
        settings: Where ``GITHUB_TOKEN`` comes from; None reads the environment.
        limits: What the source may cost.

    Raises:
        SourceError: As `resolve_revision`.
    """
    folder = workdir / f"{source.name}.git"
    repositories: list[GitRepository] = []

    def opened(access: Access) -> Tree:
        repositories.append(GitRepository(folder, access, limits))
        return repositories[-1].tree(revision.commit, source.ref)

    try:
        if _is_plain_folder(source):
            yield _folder_tree(source, folder, limits)
        else:
            yield _with_access(source, settings, opened)
    finally:
        for repository in repositories[-1:]:
            repository.remove()


def _resolve(source: Source, access: Access, workdir: Path, limits: TransferLimits) -> Revision:
    repository = GitRepository(workdir / "resolve.git", access, limits)
    full = _FULL_COMMIT.fullmatch(source.ref)
    commit, known = (source.ref, ()) if full else repository.commit_of(source.ref)
    if not commit and _SHORT_COMMIT.fullmatch(source.ref):
        commit = repository.commit_starting(source.ref)
    if not commit or not repository.fetch_commit(commit, source.ref, "tree:0"):
        raise _unknown_ref(source, access, known)
    commit = repository.peeled(commit)
    if not commit:
        raise _unknown_ref(source, access, known)
    return Revision(commit, repository.committed_at(commit))


def _unknown_ref(source: Source, access: Access, known: Iterable[str]) -> UnknownRef:
    names = list(known)
    near = difflib.get_close_matches(source.ref, names, n=_KNOWN_SHOWN, cutoff=0.5) or names[:_KNOWN_SHOWN]
    empty = source.ref == "HEAD"
    what = "no commit yet" if empty else f"no branch, tag or commit {source.ref!r}"
    remedy = "Commit its files: git add, git commit" if empty else "Name a branch, a tag or a commit that it has"
    return UnknownRef(
        f"{source.name}: {access.shown} has {what}",
        remedy=f"Known refs are {', '.join(near)}" if near else remedy,
        source=source.name,
        ref=source.ref,
        near=near,
    )


def _with_access(source: Source, settings: Settings | None, action: Callable[[Access], _T]) -> _T:
    """Tries without credentials, and with the token only where that is not enough and the host is the token's own."""
    settings = Settings.from_env() if settings is None else settings
    anonymous = _access(source, Secret(""))
    try:
        return action(anonymous)
    except (SourceUnauthenticated, SourceForbidden, RepositoryNotFound):
        if not settings.github_token or not _is_token_host(source.url, settings.github_api_url):
            raise
    return action(_access(source, authorization(settings.github_token)))


def _access(source: Source, header: Secret) -> Access:
    path = source.local_path
    if path is not None:
        return Access(source.name, f"file://{quote(str(path))}", str(path), "file", local=str(path))
    return Access(source.name, source.url, source.url, urlsplit(source.url).scheme, header=header)


def _is_token_host(url: str, api_url: str) -> bool:
    """Whether a token may be shown to a git host: api.github.com's to github.com, any other to the API's host."""
    parts, api = urlsplit(url), urlsplit(api_url)
    if api_url == DEFAULT_GITHUB_API_URL:
        return (parts.scheme, parts.netloc.lower()) == ("https", "github.com")
    return bool(parts.netloc) and (parts.scheme, parts.netloc.lower()) == (api.scheme, api.netloc.lower())


def _is_plain_folder(source: Source) -> bool:
    path = source.local_path
    if path is None:
        return False
    bare = (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    return not ((path / ".git").exists() or bare)


def _folder_tree(source: Source, scratch: Path, limits: TransferLimits) -> FolderTree:
    def attributes(files: dict[str, bytes], paths: Iterable[str]) -> set[str]:
        if not files:
            return set()
        with tempfile.TemporaryDirectory(prefix="attributes-", dir=scratch.parent) as folder:
            git = Git(Path(folder), limits)
            make_bare(git)
            return marked_generated(git, files, paths)

    scratch.parent.mkdir(parents=True, exist_ok=True)
    return FolderTree(source.name, Path(source.url), attributes)


def _folder_revision(source: Source, workdir: Path, limits: TransferLimits) -> Revision:
    if source.ref != "HEAD" and not _FULL_COMMIT.fullmatch(source.ref):
        raise UnknownRef(
            f"{source.name}: {source.url} is a plain folder and has no ref {source.ref!r}",
            remedy="Take 'ref' out, or write the full id of the commit that the folder is a copy of",
            source=source.name,
            ref=source.ref,
        )
    tree = _folder_tree(source, workdir / "scratch", limits)
    entries, extras, known = _selection(source, tree)
    config = [] if source.type == "code" else tree.contents((entry, _SITE_FILE_BYTES) for entry in extras)
    companions = Companions(source.site, tree, known)
    contents = (content for content, _ in companions.beside(_contents(source, tree, entries)))
    # What pages are made with is read while they are: it comes last.
    return Revision(digest(chain(config, contents, companions.read)))


def _refuse_unsafe(source: Source) -> None:
    """Refuses what the catalogue refuses, for sources that were made in code."""
    problem, remedy = refused_url(source.url)
    if source.local_path is not None and not Path(source.url).is_absolute():
        problem = problem or "it is not an absolute path"
        remedy = remedy or "Load it from a catalogue, or make it absolute"
    if refused_ref(source.ref):
        problem, remedy = f"{source.ref!r} is not a ref", "Name a branch, a tag or a commit"
    if source.type == "issue":
        problem, remedy = "an issue source has no files", "Read it with sources.threads"
    if problem:
        raise SourceRefused(f"{source.name}: the source is refused: {problem}", remedy=remedy, source=source.name)
