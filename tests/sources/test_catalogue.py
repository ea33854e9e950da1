from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.sources.catalogue import Source, load_catalogue

GOOD = """\
sources:
  - name: site
    type: docs
    repo: kubeflow/website
    url: ../website
    ref: v1.9-branch
    include: ["content/**/*.md"]
    exclude: ["content/**/old/**"]
    product_area:
      "content/pipelines/**": [pipelines, sdk]
      "**": platform
    version:
      "content/pipelines/v1/**": v1
    site:
      generator: hugo
      root: content
      base_url: https://www.kubeflow.org
      params: {version: "1.9", nested: {deep: true}}
  - {name: threads, type: issue, repo: kubeflow/katib, product_area: katib}
"""


@pytest.fixture
def load(tmp_path: Path):
    def write_and_load(text: str):
        file = tmp_path / "catalogue.yaml"
        file.write_text(text, encoding="utf-8")
        return load_catalogue(file)

    return write_and_load


def test_a_catalogue_is_read_in_the_order_of_its_file(load, tmp_path: Path) -> None:
    site, threads = load(GOOD).sources
    assert (site.name, site.type, site.repo, site.ref) == ("site", "docs", "kubeflow/website", "v1.9-branch")
    assert site.site is not None
    assert (site.site.generator, site.site.root) == ("hugo", "content")
    assert site.site.base_url == "https://www.kubeflow.org/"
    assert site.site.params == {"version": "1.9", "nested": {"deep": True}}
    assert (threads.type, threads.url, threads.site) == ("issue", "https://github.com/kubeflow/katib", None)


def test_a_local_path_starts_at_the_folder_of_the_catalogue(load, tmp_path: Path) -> None:
    assert load(GOOD).sources[0].local_path == (tmp_path.parent / "website").resolve()


def test_the_first_path_rule_that_matches_decides(load) -> None:
    site = load(GOOD).sources[0]
    assert site.areas("content/pipelines/a.md") == ("pipelines", "sdk")
    assert site.areas("content/other.md") == ("platform",)


def test_versions_come_from_the_rule_and_else_from_the_ref_at_every_precision(load) -> None:
    site = load(GOOD).sources[0]
    assert site.versions("content/pipelines/v1/a.md") == ("v1",)
    assert site.versions("content/a.md") == ("1.9",)


@pytest.mark.parametrize(
    ("ref", "versions"),
    [("v0.15.0", ("0.15.0", "0.15")), ("release-1.9", ("1.9",)), ("sdk/2.5.0", ("2.5.0", "2.5")), ("main", ()),
     ("v26.03-branch", ("26.03",)), ("HEAD", ()), ("release/v0.2.10", ("0.2.10", "0.2")), ("476e4c1", ())],
)  # fmt: skip
def test_a_ref_that_names_a_version_gives_it(ref: str, versions: tuple[str, ...]) -> None:
    assert Source(name="a", type="code", repo="a/b", url="https://x/y", ref=ref).versions("any") == versions


def test_includes_minus_excludes_are_selected(load) -> None:
    site = load(GOOD).sources[0]
    assert site.selects("content/a/b.md")
    assert not site.selects("content/a/old/b.md")
    assert not site.selects("README.md")


_ENTRY = "sources:\n  - {{name: a, type: {kind}, repo: a/b{rest}}}\n"


def _code(rest: str) -> str:
    return _ENTRY.format(kind="code", rest=f", {rest}")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "the catalogue is empty, not a mapping"),
        ("- a\n", 1, "a list, not a mapping"),
        ("other: 1\n", 1, "no key 'other'"),
        ("{}\n", 1, "no key 'sources'"),
        ("sources: 3\n", 1, "sources is a number, not a list"),
        ("sources:\n  - 3\n", 2, "a source is a number, not a mapping"),
        ("sources: [\n", 2, "not valid YAML"),
        ("sources:\n- {a: 1}\n- !!python/object:os.system {}\n", 2, "no key 'a'"),
        ("sources: []\nsources: []\n", 2, "not valid YAML"),
        (GOOD.replace("    ref:", "    reff:"), 6, "no key 'reff'. Did you mean ref?"),
        (GOOD.replace("name: site", "name: Site"), 2, "'Site' is not a name"),
        (GOOD.replace("name: site", "name: ../x"), 2, "is not a name"),
        (GOOD.replace("name: site", "name: manual"), 2, "reserved"),
        (GOOD.replace("name: threads", "name: site"), 19, "already a source 'site'"),
        (GOOD.replace("type: docs", "type: doc"), 3, "no type 'doc'. Did you mean docs?"),
        (GOOD.replace("    repo: kubeflow/website\n", ""), 2, "'site' has no key 'repo'"),
        (GOOD.replace("kubeflow/website", "kubeflow"), 4, "is not owner/name"),
        (GOOD.replace("kubeflow/website", "kubeflow/.."), 4, "is not owner/name"),
        (GOOD.replace("kubeflow/website", "-x/--upload-pack=y"), 4, "is not owner/name"),
        (GOOD.replace("../website", "ext::sh -c true"), 5, "runs a program"),
        (GOOD.replace("../website", '"--upload-pack=touch x"'), 5, "read as an option"),
        (GOOD.replace("../website", "git@github.com:a/b.git"), 5, "ssh"),
        (GOOD.replace("../website", "ssh://github.com/a"), 5, "not supported"),
        (GOOD.replace("../website", "http://example.org/a"), 5, "loopback"),
        (GOOD.replace("../website", "file://host/a"), 5, "cannot reach"),
        (GOOD.replace("../website", "https://x:99999/a"), 5, "not valid URL"),
        (GOOD.replace("../website", "https://"), 5, "no host"),
        (GOOD.replace("v1.9-branch", "--upload-pack=x"), 6, "is not a ref"),
        (GOOD.replace("v1.9-branch", '"a b"'), 6, "is not a ref"),
        (GOOD.replace("v1.9-branch", "1.10"), 6, "ref is a number, not text. Put it in quotes"),
        (GOOD.replace('include: ["content/**/*.md"]', "include: content"), 7, "include is text, not a list"),
        (GOOD.replace("content/**/*.md", "content/**.md"), 7, "** stands alone"),
        (GOOD.replace('"content/pipelines/**"', '"/content"'), 10, "without a leading /"),
        (GOOD.replace("[pipelines, sdk]", "[pipelines, pipeline]"), 10, "Did you mean pipelines"),
        (GOOD.replace("/v1/**\": v1", "/v1/**\": soon"), 13, "'soon' is not a version"),
        (GOOD.replace("/v1/**\": v1", "/v1/**\": 1.10"), 13, "a version is a number, not text. Put it in quotes"),
        (GOOD.replace("generator: hugo", "generator: jekyll"), 15, "no generator 'jekyll'"),
        (GOOD.replace("      generator: hugo\n", ""), 14, "no key 'generator'"),
        (GOOD.replace("root: content", "root: ../content"), 16, "not a folder"),
        (GOOD.replace("https://www.kubeflow.org", "www.kubeflow.org"), 17, "base_url"),
        (GOOD.replace("params: {", "params: [").replace("true}}", "true}]"), 18, "params is a list"),
        (GOOD.replace("params: {", "parms: {"), 18, "Did you mean params"),
        (GOOD.replace("    site:\n", "    sites:\n"), 14, "Did you mean site"),
        (_ENTRY.format(kind="docs", rest=""), 2, "no key 'site'"),
        (_ENTRY.format(kind="issue", rest=", ref: main"), 2, "type issue has no key 'ref'"),
        (_code("site: {}"), 2, "type code has no key 'site'"),
        (_code("repo: null").replace("repo: a/b, ", ""), 2, "repo is empty, not text"),
        (_code("url: ''"), 2, "url is empty"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_with_file_line_and_what_to_do(load, text: str, line: int, words: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        load(text)
    assert words in str(caught.value)
    assert caught.value.fields["line"] == line
    assert f"catalogue.yaml:{line}: " in str(caught.value)
    assert caught.value.remedy


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="nowhere.yaml: it cannot be read"):
        load_catalogue(tmp_path / "nowhere.yaml")


def test_a_password_in_a_url_is_refused_and_not_repeated(load) -> None:
    with pytest.raises(CatalogueError, match="credentials") as caught:
        load(GOOD.replace("../website", "https://user:hunter2@github.com/a/b"))
    assert "hunter2" not in str(caught.value)


def test_an_entry_may_take_keys_from_another_by_a_merge(load) -> None:
    text = "sources:\n  - &a {name: a, type: code, repo: a/b, include: ['**']}\n  - {<<: *a, name: b}\n"
    assert [(source.name, source.include) for source in load(text).sources] == [("a", ("**",)), ("b", ("**",))]


def test_aliases_that_stand_for_millions_of_values_are_refused(load) -> None:
    levels = "".join(f"        l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else '1'}]\n" for n in range(9))
    text = GOOD.replace('params: {version: "1.9", nested: {deep: true}}', f"params:\n{levels.rstrip()}")
    with pytest.raises(CatalogueError, match="too many"):
        load(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_catalogue_or_a_catalogue_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(data)
    with pytest.raises(CatalogueError):
        load_catalogue(file)


def test_select_gives_the_sources_of_a_type_or_the_named_ones(load) -> None:
    catalogue = load(GOOD)
    assert [source.name for source in catalogue.select("docs", [])] == ["site"]
    assert [source.name for source in catalogue.select("", ["threads"])] == ["threads"]
    assert [source.name for source in catalogue.select("code")] == []


def test_select_refuses_a_name_that_is_unknown_or_of_another_type(load) -> None:
    catalogue = load(GOOD)
    with pytest.raises(CatalogueError, match="no source 'sit'. Did you mean site?"):
        catalogue.select("docs", ["sit"])
    with pytest.raises(CatalogueError, match="'threads' is a source of type issue, not docs"):
        catalogue.select("docs", ["threads"])


def test_the_packaged_catalogue_lists_all_three_types() -> None:
    catalogue = load_catalogue()
    assert {source.repo for source in catalogue.select("docs")} == {
        "kubeflow/website",
        "kserve/website",
        "kubeflow/trainer",
        "kubeflow/spark-operator",
    }
    assert {"kubeflow/pipelines", "kubeflow/katib", "kubeflow/trainer", "kserve/kserve"} <= {
        source.repo for source in catalogue.select("code")
    }
    assert {"kubeflow/kubeflow", "kubeflow/hub", "kubeflow/spark-operator", "kubeflow/notebooks"} <= {
        source.repo for source in catalogue.select("issue")
    }


@pytest.mark.parametrize(
    ("source", "path", "areas", "versions"),
    [
        ("kubeflow-website", "content/en/docs/components/pipelines/legacy-v1/sdk/x.md", ("pipelines",), ("v1",)),
        ("kubeflow-website", "content/en/docs/components/pipelines/user-guides/x.md", ("pipelines",), ("v2",)),
        ("kubeflow-website", "content/en/docs/ecosystem/kserve/introduction.md", ("kserve",), ()),
        ("kubeflow-website", "content/en/docs/components/hub/overview.md", ("model-registry",), ()),
        ("kubeflow-website", "content/en/docs/kubeflow-distribution/releases/kubeflow-1.9.md", ("platform",), ()),
        ("kserve-website", "docs/intro.mdx", ("kserve",), ()),
        ("trainer-docs", "docs/legacy-v1/overview.md", ("training-operator",), ("v1",)),
        ("trainer-docs", "docs/overview/index.md", ("trainer",), ()),
        ("spark-operator-docs", "docs/website/overview/index.md", ("spark",), ()),
        ("pipelines-code", "manifests/kustomize/base/a.yaml", ("pipelines", "manifests"), ()),
        ("community-distribution-code", "applications/katib/upstream/x.yaml", ("katib", "manifests"), ()),
        ("community-distribution-code", "common/istio/x.yaml", ("platform", "manifests"), ()),
    ],
)
def test_the_packaged_rules_know_real_paths(
    source: str, path: str, areas: tuple[str, ...], versions: tuple[str, ...]
) -> None:
    (entry,) = load_catalogue().select("", [source])
    assert entry.selects(path)
    assert (entry.areas(path), entry.versions(path)) == (areas, versions)
