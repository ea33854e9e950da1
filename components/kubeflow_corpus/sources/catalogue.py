"""The catalogue: which sources are indexed, from where, and what is known about their paths.

``sources:`` is a list of entries. ``vocabulary:`` may name the file with the words of the project that the sources are
of, relative to the catalogue (see `vocabulary_file`); without it the packaged vocabulary of Kubeflow counts. Every
mistake is a `CatalogueError` with file and line.

============== ============ =======================================================================================
key            types        meaning
============== ============ =======================================================================================
name           all          unique; lower-case letters, digits and hyphens; part of every document's key
type           all          ``docs``, ``issue`` or ``code``
repo           all          ``owner/name``
url            docs, code   https, ``file://`` or a path relative to the catalogue; default ``https://github.com/<repo>``
ref            docs, code   branch, tag or commit; default the repository's default branch. A plain folder has no refs:
                            there it may only be the full commit of which the folder is a copy (for links)
include        docs, code   path patterns (see `globs`); default by generator or type, see `DEFAULT_INCLUDE`
exclude        docs, code   path patterns taken out again
product_area   all          one area, a list, or path rules ``pattern: area(s)``; the first rule that matches decides
version        all          the same for versions; where no rule matches, the version that `ref` names, if it names one
site           docs         ``generator`` (see `sites.registry`), ``root`` (folder whose files become pages),
                            ``base_url`` (the address of that folder), ``params`` (what its shortcodes resolve to)
============== ============ =======================================================================================

A plain ``http`` URL is accepted for loopback addresses only: over it, anybody on the way could change what is indexed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, cast
from urllib.parse import unquote, urlsplit

from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.sites.base import Site
from kubeflow_corpus.sites.registry import GENERATORS, generator_named
from kubeflow_corpus.sources.globs import check_glob, compile_glob, matches_any
from kubeflow_corpus.sources.vocabulary_file import load_vocabulary
from kubeflow_corpus.sources.yaml_file import YamlFile, did_you_mean, line_of
from kubeflow_corpus.terms import PRE_RELEASE, RELEASE_NUMBER, version_precisions
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

SourceKind = Literal["docs", "issue", "code"]

# What `init` writes, and what a person's own catalogue is called.
CATALOGUE_FILE: Final = "catalogue.yaml"
PACKAGED: Final = Path(__file__).with_name(CATALOGUE_FILE)
_COMMON: Final = ("name", "type", "repo", "product_area", "version")
_FILES: Final = (*_COMMON, "url", "ref", "include", "exclude")
KEYS: Final[dict[str, tuple[str, ...]]] = {"docs": (*_FILES, "site"), "code": _FILES, "issue": _COMMON}
REQUIRED: Final[dict[str, tuple[str, ...]]] = {"docs": ("name", "type", "repo", "site")}
_REQUIRED_ALWAYS: Final = ("name", "type", "repo")
_ROOT_KEYS: Final = ("vocabulary", "sources")
_SITE_KEYS: Final = ("generator", "root", "base_url", "params")
DEFAULT_INCLUDE: Final[dict[str, tuple[str, ...]]] = {
    "code": ("**/*.{go,py,ts,tsx,js,jsx,sh,proto,yaml,yml}", "**/Dockerfile", "**/*.Dockerfile", "**/Dockerfile.*"),
}
_MAX_PARAMS: Final = 1000
_MAX_PARAM_DEPTH: Final = 8
# The owner in the `repo` of a folder that is on no host: no address on the web is made of it.
UNHOSTED: Final = "local"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
REPO_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}$)[A-Za-z0-9._][A-Za-z0-9._-]{0,99}")
# What `git check-ref-format` forbids, and a leading hyphen, which a command line would read as an option.
_BAD_REF: Final = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|/\.|\.lock(/|$)|[/.]$|^@$")
_REF_VERSION: Final = re.compile(rf"(?:.*/)?(?:release-)?(v?{RELEASE_NUMBER}(?:{PRE_RELEASE}[.\d-]*+)?)(?:-branch)?")
_SCP: Final = re.compile(r"[^/:@]+@[^/:]+:")
_HELPER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")


@dataclass(frozen=True, slots=True)
class PathRule:
    """What is known about the paths that a pattern matches."""

    glob: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of a catalogue.

    Attributes:
        name: Unique slug.
        type: ``docs``, ``issue`` or ``code``.
        repo: ``owner/name``; the owner ``local`` says that a folder is on no host.
        url: https (or loopback http) URL, or an absolute local path.
        ref: Branch, tag or commit; ``HEAD`` is the default branch.
        include: Patterns of the files to read.
        exclude: Patterns of files among them to leave out.
        product_area: Path rules; the first that matches decides.
        version: Path rules; the first that matches decides. Values are as people write them.
        site: For docs only.
        labels: For issues only: label and the product that it names, of the vocabulary.
    """

    name: str
    type: SourceKind
    repo: str
    url: str
    ref: str = "HEAD"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    product_area: tuple[PathRule, ...] = ()
    version: tuple[PathRule, ...] = ()
    site: Site | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def local_path(self) -> Path | None:
        """The folder that `url` names, or None where it is a web address."""
        return None if "://" in self.url else Path(self.url)

    def selects(self, path: str) -> bool:
        """Returns whether the file at this path belongs to the source."""
        return matches_any(self.include, path) and not matches_any(self.exclude, path)

    def areas(self, path: str) -> tuple[str, ...]:
        """Returns the product areas of a path."""
        return _first_match(self.product_area, path)

    def versions(self, path: str) -> tuple[str, ...]:
        """Returns the versions of a path at every precision, from its rule or else from the ref."""
        named = _first_match(self.version, path)
        if not named and (match := _REF_VERSION.fullmatch(self.ref)):
            named = (match[1],)
        return tuple(dict.fromkeys(precise for text in named for precise in version_precisions(text)))


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sources, in the order of the file.

    Attributes:
        path: The file that was read.
        sources: Its entries.
        vocabulary: The words of the project that they are of.
    """

    path: Path
    sources: tuple[Source, ...]
    vocabulary: Vocabulary = field(default_factory=default_vocabulary)

    def select(self, source_type: str = "", names: Iterable[str] = ()) -> tuple[Source, ...]:
        """Returns the sources of a type, or those of them that are named.

        Args:
            source_type: ``docs``, ``issue``, ``code`` or empty for all.
            names: Names of entries; none means all of that type.

        Raises:
            CatalogueError: A name is not in the catalogue, or is a source of another type.
        """
        wanted = tuple(names)
        candidates = tuple(source for source in self.sources if source_type in ("", source.type))
        known = [source.name for source in candidates]
        for name in wanted:
            if name not in known:
                self._refuse_name(name, source_type, known)
        return tuple(source for source in candidates if not wanted or source.name in wanted)

    def _refuse_name(self, name: str, source_type: str, known: list[str]) -> NoReturn:
        other = next((source.type for source in self.sources if source.name == name), "")
        problem = (
            f"{name!r} is a source of type {other}, not {source_type}" if other else f"there is no source {name!r}"
        )
        raise CatalogueError(
            f"{self.path}: {problem}",
            remedy=did_you_mean(name, known, "Sources"),
            path=str(self.path),
            line=0,
            source=name,
        )


def load_catalogue(path: str | Path = "") -> Catalogue:
    """Reads and checks a catalogue.

    Args:
        path: The YAML file; empty is the packaged catalogue of Kubeflow's own sources.

    Raises:
        CatalogueError: The file cannot be read or says something wrong; it names file and line.
    """
    file = Path(path) if str(path) else PACKAGED
    return _CatalogueReader(file).catalogue()


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_unhosted(repo: str) -> bool:
    """Returns whether a `repo` says that its folder is on no host, so that it has no address on the web."""
    return repo.startswith(f"{UNHOSTED}/")


def refused_ref(ref: str) -> bool:
    """Returns whether a ref is a name that git refuses, or one that a command line would take for an option."""
    return not ref or len(ref) > 255 or _BAD_REF.search(ref) is not None


def refused_url(url: str) -> tuple[str, str]:
    """Returns what is wrong with the address of a source and the remedy; two empty strings where nothing is.

    Never repeats the address where it may hold a password.
    """
    remedy = "Use an https URL, a file:// URL or the path of a folder"
    if any(ord(character) < 32 for character in url) or url != url.strip():
        return "it holds control characters or outer blanks", remedy
    if url.startswith("-"):
        return f"{url!r} would be read as an option", remedy
    if _HELPER.match(url):
        return f"the transport of {url!r} runs a program", remedy
    if "://" not in url:
        ssh = _SCP.match(url)
        return (
            ("ssh addresses are not supported", f"{remedy}; GITHUB_TOKEN opens private repositories")
            if ssh
            else ("", "")
        )
    return _refused_web(url, remedy)


def _refused_web(url: str, remedy: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "it is not valid URL", remedy
    if parts.username is not None or parts.password is not None:
        return "it holds credentials", "Take them out, and set GITHUB_TOKEN in the environment instead"
    if parts.query or parts.fragment:
        return "a query or fragment has no meaning in it", remedy
    if parts.scheme == "file":
        return ("", "") if host in ("", "localhost") else (f"file:// cannot reach the host {host!r}", remedy)
    if parts.scheme not in ("https", "http"):
        return f"{parts.scheme}:// is not supported", remedy
    if not host or host.startswith("-"):
        return "it names no host", remedy
    if parts.scheme == "http" and not is_loopback(host):
        return (
            "plain http is accepted for loopback addresses only",
            "Use https, or clone the repository and name its path",
        )
    return "", ""


def _first_match(rules: tuple[PathRule, ...], path: str) -> tuple[str, ...]:
    return next((rule.values for rule in rules if compile_glob(rule.glob).fullmatch(path)), ())


class _CatalogueReader(YamlFile):
    """Reads one catalogue."""

    def catalogue(self) -> Catalogue:
        root = self.mapping(self.load(), "the catalogue", 1)
        self.known_keys(root, _ROOT_KEYS, "the catalogue")
        if "sources" not in root:
            self.fail(1, "it has no key 'sources'", "Add 'sources:' with a list of entries")
        self._vocabulary = (
            load_vocabulary(self.path.parent / self.text(root, "vocabulary"))
            if "vocabulary" in root
            else default_vocabulary()
        )
        entries = self.sequence(root["sources"], "sources", line_of(root, "sources"))
        sources: list[Source] = []
        for index, entry in enumerate(entries):
            sources.append(self._source(entry, line_of(entries, index), sources))
        return Catalogue(self.path, tuple(sources), self._vocabulary)

    def _source(self, entry: Any, line: int, before: Sequence[Source]) -> Source:
        mapping = self.mapping(entry, "a source", line)
        known = tuple(dict.fromkeys(key for keys in KEYS.values() for key in keys))
        self.known_keys(mapping, known, "a source")
        for key in _REQUIRED_ALWAYS:
            self.require(mapping, key, line)
        kind = self.choice(mapping, "type", tuple(KEYS))
        name = self._name(mapping, before)
        self.known_keys(mapping, KEYS[kind], f"a source of type {kind}")
        for key in REQUIRED.get(kind, ()):
            self.require(mapping, key, line)
        repo = self.text(mapping, "repo")
        if not REPO_NAME.fullmatch(repo):
            self.fail(line_of(mapping, "repo"), f"repo {repo!r} is not owner/name", "Write it as on GitHub: owner/name")
        site = self._site(mapping, repo) if "site" in mapping else None
        pages = generator_named(site.generator).page_patterns if site is not None else ()
        return Source(
            name=name,
            type=cast(SourceKind, kind),
            repo=repo,
            url=self._url(mapping, repo),
            ref=self._ref(mapping),
            include=self._globs(mapping, "include") or pages or DEFAULT_INCLUDE.get(kind, ()),
            exclude=self._globs(mapping, "exclude"),
            product_area=self._rules(mapping, "product_area", self._area),
            version=self._rules(mapping, "version", self._version),
            site=site,
            labels=self._vocabulary.labels if kind == "issue" else (),
        )

    def _name(self, mapping: Mapping[str, Any], before: Sequence[Source]) -> str:
        name, line = self.text(mapping, "name"), line_of(mapping, "name")
        if not _NAME.fullmatch(name):
            remedy = "Use at most 63 lower-case letters, digits and inner hyphens"
            self.fail(line, f"{name!r} is not a name for a source", remedy)
        if name == MANUAL_SOURCE:
            self.fail(line, f"the name {name!r} is reserved", "Choose another name")
        if any(source.name == name for source in before):
            self.fail(line, f"there is already a source {name!r}", "Give every source its own name")
        return name

    def _url(self, mapping: Mapping[str, Any], repo: str) -> str:
        if "url" not in mapping:
            return f"https://github.com/{repo}"
        url = self.text(mapping, "url")
        problem, remedy = refused_url(url)
        if problem:
            self.fail(line_of(mapping, "url"), f"the url of a source is refused: {problem}", remedy)
        if url.startswith("file://"):
            return str(Path(unquote(urlsplit(url).path)))
        return url if "://" in url else str((self.path.parent / url).resolve())

    def _ref(self, mapping: Mapping[str, Any]) -> str:
        ref = self.text(mapping, "ref") if "ref" in mapping else "HEAD"
        if refused_ref(ref):
            self.fail(line_of(mapping, "ref"), f"{ref!r} is not a ref", "Name a branch, a tag or a commit")
        return ref

    def _globs(self, mapping: Mapping[str, Any], key: str) -> tuple[str, ...]:
        if key not in mapping:
            return ()
        items = self.sequence(mapping[key], key, line_of(mapping, key))
        return tuple(self._glob(item, line_of(items, index)) for index, item in enumerate(items))

    def _glob(self, value: Any, line: int) -> str:
        glob = self.plain_text(value, "a pattern", line)
        if problem := check_glob(glob):
            self.fail(line, f"the pattern {glob!r} is refused: {problem}", "See docs/reference/catalogue.md")
        return glob

    def _rules(self, mapping: Mapping[str, Any], key: str, check: Callable[[Any, int], str]) -> tuple[PathRule, ...]:
        if key not in mapping:
            return ()
        value, line = mapping[key], line_of(mapping, key)
        if not isinstance(value, Mapping):
            return (PathRule("**", self._values(value, line, check)),)
        return tuple(
            PathRule(self._glob(glob, line_of(value, glob)), self._values(value[glob], line_of(value, glob), check))
            for glob in value
        )

    def _values(self, value: Any, line: int, check: Callable[[Any, int], str]) -> tuple[str, ...]:
        if isinstance(value, list):
            return tuple(check(item, line_of(value, index)) for index, item in enumerate(value))
        return (check(value, line),)

    def _area(self, value: Any, line: int) -> str:
        area = self.plain_text(value, "a product area", line)
        known = self._vocabulary.areas
        if area not in known:
            self.fail(line, f"there is no product area {area!r}", did_you_mean(area, known, "Known areas"))
        return area

    def _version(self, value: Any, line: int) -> str:
        version = self.plain_text(value, "a version", line)
        if not version_precisions(version):
            self.fail(line, f"{version!r} is not a version", 'Write "1.10", "26.03.1", v0.15.0 or v2')
        return version

    def _site(self, mapping: Mapping[str, Any], repo: str) -> Site:
        line = line_of(mapping, "site")
        site = self.mapping(mapping["site"], "site", line)
        self.known_keys(site, _SITE_KEYS, "site")
        self.require(site, "generator", line)
        generator = self.choice(site, "generator", tuple(GENERATORS))
        if generator_named(generator).has_addresses and not is_unhosted(repo):
            self.require(site, "base_url", line)
        base_url = self._base_url(site) if "base_url" in site else ""
        return Site(generator, self._root(site), base_url, self._params(site))

    def _root(self, site: Mapping[str, Any]) -> str:
        root = self.text(site, "root") if site.get("root", "") != "" else ""
        if root and (check_glob(root) or any(character in root for character in "*?[{")):
            self.fail(line_of(site, "root"), f"root {root!r} is not a folder of the tree", "Write it as in content/en")
        return root

    def _base_url(self, site: Mapping[str, Any]) -> str:
        url, line = self.text(site, "base_url"), line_of(site, "base_url")
        try:
            parts = urlsplit(url)
            good = (
                parts.scheme in ("http", "https")
                and parts.hostname
                and not (parts.query or parts.fragment or "@" in url)
            )
        except ValueError:
            good = False
        if not good or re.search(r"[\x00-\x20]", url):
            self.fail(
                line, "base_url is not an http(s) address", "Write the address of the root folder, https://host/path/"
            )
        return url.rstrip("/") + "/"

    def _params(self, site: Mapping[str, Any]) -> dict[str, Any]:
        if "params" not in site:
            return {}
        line = line_of(site, "params")
        budget = [_MAX_PARAMS]
        return {
            str(key): self._param(value, line, _MAX_PARAM_DEPTH, budget)
            for key, value in self.mapping(site["params"], "params", line).items()
        }

    def _param(self, value: Any, line: int, depth: int, budget: list[int]) -> Any:
        budget[0] -= 1
        if depth == 0 or budget[0] < 0:
            self.fail(line, "params are too many or nested too deeply", f"Keep them under {_MAX_PARAMS} values")
        if isinstance(value, Mapping):
            return {str(key): self._param(item, line, depth - 1, budget) for key, item in value.items()}
        if isinstance(value, list):
            return [self._param(item, line, depth - 1, budget) for item in value]
        if isinstance(value, bool):
            return bool(value)
        return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else str(value)
