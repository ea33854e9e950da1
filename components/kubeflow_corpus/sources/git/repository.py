"""A git repository as a tree: the commit and its folders come first, then only the files that are wanted.

One commit deep and without file contents (``--depth=1 --filter=blob:none``), the contents of the wanted files follow in
a second request by object id. Nothing is checked out; files are read from the object store. Where a server does less:

- no filters: the one commit comes whole, and the second request falls away;
- no fetch of a bare commit: the source's ref, and if it has moved on, all branches and tags with their history;
- no fetch of objects by id: the one commit again, whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from kubeflow_corpus.errors import SourceError, SourceRefused, UnknownRef
from kubeflow_corpus.sources.git.command import Access, Git, GitFailed, TransferLimits, explain, unadvertised
from kubeflow_corpus.sources.trees import MAX_ENTRIES, Content, Entry

_EVERYTHING: Final = ("+refs/heads/*:refs/fetched/heads/*", "+refs/tags/*:refs/fetched/tags/*")
_MODES: Final = {"120000": "symlink", "160000": "submodule"}
_BLOCK: Final = 1 << 16
_MAX_RECORD: Final = 1 << 20
_MAX_MISSING: Final = 16
_LACKING: Final = re.compile(r"not our ref ([0-9a-f]{40,64})")
_ATTRIBUTE: Final = "linguist-generated"


class GitRepository:
    """A bare repository of our own, filled from one remote.

    Args:
        folder: Where it is made; what was there is removed.
        access: The remote.
        limits: What it may cost.
    """

    def __init__(self, folder: Path, access: Access, limits: TransferLimits) -> None:
        self._folder = folder
        self._access = access
        self._git = Git(folder, limits, access)

    def commit_of(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Asks the remote which commit a branch or tag names.

        Args:
            name: ``HEAD``, a full name (``refs/...``), or the name of a tag or branch (a tag goes first, as in git).

        Returns:
            The commit id, or an empty string and the short names that the remote has.
        """
        names = [name] if name == "HEAD" or name.startswith("refs/") else [f"refs/tags/{name}", f"refs/heads/{name}"]
        self._make("sha1")
        found = {ref: oid for oid, ref in self._list(*names, *(f"{ref}^{{}}" for ref in names))}
        for ref in names:
            if ref in found:
                return found.get(f"{ref}^{{}}", found[ref]), ()
        known = [ref.split("/", 2)[2] for _, ref in self._list() if ref.startswith(("refs/heads/", "refs/tags/"))]
        return "", tuple(ref for ref in known if not ref.endswith("^{}"))

    def commit_starting(self, prefix: str) -> str:
        """Returns the one commit whose id starts with a prefix, or an empty string.

        The tips of branches and tags answer for themselves; for any other commit the history comes, without files.
        """
        tips = {oid for oid, _ in self._list() if oid.startswith(prefix)}
        self._make("sha1")
        with self._explained():
            self._git.transfer("--filter=tree:0", "origin", *_EVERYTHING, *(sorted(tips)[:1]))
        self._forget_remote()
        try:
            return self._git.run("rev-parse", "--verify", "--quiet", f"{prefix}^{{commit}}").decode().strip()
        except GitFailed:
            return ""

    def fetch_commit(self, commit: str, ref: str, filter_spec: str) -> bool:
        """Brings one commit.

        Args:
            commit: Its full id.
            ref: The ref that named it, for servers that give no bare commit.
            filter_spec: What is left out, as in ``git fetch --filter``; empty brings all.

        Returns:
            Whether the remote has it.
        """
        left_out = (f"--filter={filter_spec}",) if filter_spec else ()
        tries = [("--depth=1", *left_out, "origin", commit), (*left_out, "origin", *_EVERYTHING)]
        if not commit.startswith(ref):
            tries.insert(1, ("--depth=1", *left_out, "origin", ref))
        for arguments in tries:
            self._make("sha256" if len(commit) == 64 else "sha1")
            try:
                self._git.transfer(*arguments)
            except GitFailed as failure:
                if not unadvertised(failure.text):
                    raise explain(failure, self._access) from failure
            self._forget_remote()
            if self._has_commit(commit):
                return True
        return False

    def committed_at(self, commit: str) -> str:
        """Returns the time of a commit that was fetched, ISO 8601 UTC; empty where it is out of range."""
        text = self._git.run("log", "-1", "--no-show-signature", "--format=%H %ct", commit).decode()
        try:
            return datetime.fromtimestamp(int(text.split()[1]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (ValueError, OverflowError, OSError):
            return ""

    def peeled(self, oid: str) -> str:
        """Returns the commit that a fetched object is or points to; empty where it is none."""
        try:
            return self._git.run("rev-parse", "--verify", "--quiet", f"{oid}^{{commit}}").decode().strip()
        except GitFailed:
            return ""

    def tree(self, commit: str, ref: str) -> GitTree:
        """Brings a commit with its folders and returns it as a tree.

        Raises:
            UnknownRef: The remote has the commit no longer.
        """
        self._require(commit, ref, "blob:none")
        return GitTree(self, commit, ref)

    def fetch_objects(self, commit: str, ref: str, oids: list[str]) -> None:
        """Brings the contents that are not there yet, in one request.

        A remote that lacks a few of its own objects is asked for the others; those stay missing.
        """
        absent = [oid for oid, size in self.sizes(oids) if size is None]
        for _ in range(_MAX_MISSING):
            if not absent:
                return
            try:
                self._ask_for(absent)
                return
            except GitFailed as failure:
                lacking = _LACKING.search(failure.text)
                if lacking is None or lacking[1] not in absent:
                    if unadvertised(failure.text):
                        break
                    raise explain(failure, self._access) from failure
                absent.remove(lacking[1])
        # The remote hands out no object by its id: the whole commit it is.
        self._require(commit, ref, "")

    def _ask_for(self, oids: list[str]) -> None:
        lines = "".join(f"{oid}\n" for oid in oids).encode("ascii")
        self._git.transfer("--filter=blob:none", "--stdin", "origin", stdin=lines)
        self._forget_remote()

    def listing(self, commit: str) -> Iterator[tuple[str, bytes]]:
        """Yields (mode, object id and path) for every file below a commit."""
        with self._git.talk("ls-tree", "-r", "-z", "--full-tree", commit) as (given, answers):
            given.close()
            for count, record in enumerate(_records(answers)):
                if count >= MAX_ENTRIES or len(record) > _MAX_RECORD:
                    raise SourceRefused(
                        f"{self._access.source}: {self._access.shown} has more than {MAX_ENTRIES} paths",
                        remedy="Leave the source out, or name a plain folder with the files that you need",
                        source=self._access.source,
                    )
                mode, _, rest = record.decode("latin-1").split(" ", 2)
                yield mode, rest.encode("latin-1")

    def sizes(self, oids: Iterable[str]) -> list[tuple[str, int | None]]:
        """Returns each object's size, None where it is not there."""
        lines = "".join(f"{oid}\n" for oid in oids).encode("ascii")
        answers = self._git.run("cat-file", "--batch-check", stdin=lines).decode("ascii").splitlines()
        fields = [line.split() for line in answers]
        return [(parts[0], int(parts[2]) if len(parts) == 3 else None) for parts in fields]

    def blobs(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Yields the content of each object, one at a time; every one of them must be there."""
        with self._git.talk("cat-file", "--batch") as (given, answers):
            for oid in oids:
                given.write(f"{oid}\n".encode("ascii"))
                given.flush()
                yield self._blob(answers, oid)

    def attributed(self, files: dict[str, bytes], paths: Iterable[str]) -> set[str]:
        """Returns the paths that the given ``.gitattributes`` files mark as generated."""
        return marked_generated(self._git, files, paths)

    def remove(self) -> None:
        """Removes the repository from the disk."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _blob(self, answers: IO[bytes], oid: str) -> bytes:
        header = answers.readline().split()
        if len(header) != 3:
            problem = f"{self._access.source}: the content {oid} cannot be read from the fetched repository"
            raise SourceError(problem, remedy="Run again; the transfer left it out", source=self._access.source)
        data = answers.read(int(header[2]))
        answers.read(1)
        return data

    def _require(self, commit: str, ref: str, filter_spec: str) -> None:
        if not self.fetch_commit(commit, ref, filter_spec):
            raise UnknownRef(
                f"{self._access.source}: {self._access.shown} has no commit {commit}",
                remedy="Name a branch, a tag or another commit; a force-push may have removed it",
                source=self._access.source,
                ref=commit,
            )

    def _list(self, *patterns: str) -> list[tuple[str, str]]:
        with self._explained():
            return self._git.list_remote(*patterns)

    def _explained(self) -> _ErrorsForPeople:
        return _ErrorsForPeople(self._access)

    def _has_commit(self, commit: str) -> bool:
        return any(size is not None for _, size in self.sizes([commit]))

    def _make(self, object_format: str) -> None:
        self.remove()
        self._folder.mkdir(parents=True)
        make_bare(self._git, object_format)

    def _forget_remote(self) -> None:
        # With a promisor on record, looking for an object that is not here is an error instead of an answer.
        with suppress(GitFailed):
            self._git.run("config", "--file", str(self._folder / "config"), "--remove-section", "remote.origin")


class GitTree:
    """The files of one commit; see `GitRepository`."""

    def __init__(self, repository: GitRepository, commit: str, ref: str) -> None:
        self._repository = repository
        self._commit = commit
        self._ref = ref

    def entries(self) -> Iterator[Entry]:
        """Yields every path of the commit."""
        for mode, rest in self._repository.listing(self._commit):
            oid, _, raw = rest.partition(b"\t")
            try:
                path, problem = raw.decode("utf-8"), _MODES.get(mode, "")
            except UnicodeDecodeError:
                path, problem = raw.decode("utf-8", "backslashreplace"), "unsafe_path"
            yield Entry(path, problem, oid.decode("ascii"))

    def contents(self, wanted: Iterable[tuple[Entry, int]]) -> Iterator[Content]:
        """Brings the contents of all wanted entries in one request, then yields them one at a time."""
        pairs = list(wanted)
        self._fetch_objects([entry for entry, _ in pairs])
        sizes = dict(self._repository.sizes(sorted({entry.key for entry, _ in pairs})))
        good = iter(self._repository.blobs(entry.key for entry, most in pairs if _is_within(sizes[entry.key], most)))
        for entry, most in pairs:
            size = sizes[entry.key]
            if size is None:
                yield Content(entry, problem="missing")
            elif size > most:
                yield Content(entry, problem="too_large", size=size)
            else:
                yield Content(entry, next(good), size=size)

    def generated(self, attribute_files: Iterable[Entry], paths: Iterable[str]) -> set[str]:
        """Returns the paths that ``.gitattributes`` marks ``linguist-generated``."""
        wanted = [(entry, 1 << 20) for entry in attribute_files if not entry.problem]
        return self._repository.attributed({item.entry.path: item.data for item in self.contents(wanted)}, paths)

    def _fetch_objects(self, entries: list[Entry]) -> None:
        self._repository.fetch_objects(self._commit, self._ref, sorted({entry.key for entry in entries}))


class _ErrorsForPeople:
    """Turns a failed command into the error for people."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, GitFailed):
            raise explain(error, self._access) from error


def make_bare(git: Git, object_format: str = "sha1") -> None:
    """Makes an empty bare repository without the template's hooks."""
    git.run("init", "--bare", "--quiet", "--template=", f"--object-format={object_format}")


def marked_generated(git: Git, files: dict[str, bytes], paths: Iterable[str]) -> set[str]:
    """Asks git which paths are generated, as ``git check-attr linguist-generated`` says.

    Args:
        git: A bare repository that may be written to.
        files: ``.gitattributes`` contents by path.
        paths: The paths in question.

    Returns:
        Those of the paths whose attribute is set, or ``true``.
    """
    if not files:
        return set()
    # The index is the one place from which a bare repository of any git version reads attributes.
    oids = {path: git.run("hash-object", "-w", "--stdin", stdin=data).decode().strip() for path, data in files.items()}
    index = b"".join(f"100644 {oid}\t{path}".encode() + b"\0" for path, oid in oids.items())
    git.run("update-index", "-z", "--index-info", stdin=index)
    asked = b"".join(path.encode() + b"\0" for path in paths)
    answers = git.run("check-attr", "--cached", "-z", "--stdin", _ATTRIBUTE, stdin=asked).split(b"\0")
    triples = zip(answers[::3], answers[2::3], strict=False)
    return {path.decode() for path, value in triples if value in (b"set", b"true")}


def _is_within(size: int | None, most: int) -> bool:
    return size is not None and size <= most


def _records(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_BLOCK):
        *whole, rest = (rest + block).split(b"\0")
        yield from whole
        if len(rest) > _MAX_RECORD:
            yield rest
            return
