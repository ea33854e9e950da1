"""What is found in a repository that nobody has described."""

from __future__ import annotations

import pytest
from kubeflow_corpus.sources.discovery import Findings, discover, slug

HUGO = 'baseURL = "https://mill.test/"\ntitle = "Mill"\n'
DOCUSAURUS = "module.exports = {\n  title: 'Mill',\n  url: 'https://mill.test',\n  baseUrl: '/site/',\n};\n"
SPHINX = 'project = "Mill"\nextensions = ["myst_parser"]\n'
MKDOCS = "site_name: Mill\nsite_url: https://mill.test/en/\nplugins: [!ENV X]\nx: !!python/name:a.b\n"


def found(files: dict[str, str], repo: str = "mills/Wind-Mill") -> Findings:
    return discover(repo, files, lambda paths: ((path, files[path]) for path in paths))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"hugo.toml": HUGO, "content/en/a.md": ""}, ("hugo", "content/en", "https://mill.test/", 1)),
        (
            {"site/config/_default/hugo.toml": HUGO, "site/content/a.md": ""},
            ("hugo", "site/content", "https://mill.test/", 1),
        ),
        (
            {"web/docusaurus.config.js": DOCUSAURUS, "web/docs/a.mdx": ""},
            ("docusaurus", "web/docs", "https://mill.test/site/", 1),
        ),
        (
            {"docs/conf.py": SPHINX + 'html_baseurl = "https://mill.test/"', "docs/a.md": "", "docs/b.rst": ""},
            ("sphinx", "docs", "https://mill.test/", 2),
        ),
        ({"mkdocs.yml": MKDOCS, "docs/a.md": "", "docs/b/c.md": ""}, ("mkdocs", "docs", "https://mill.test/en/", 2)),
    ],
)
def test_a_site_is_recognised_by_its_configuration(files: dict[str, str], expected: tuple[str, str, str, int]) -> None:
    (site,) = found(files).sites
    assert (site.site.generator, site.site.root, site.site.base_url, site.pages) == expected
    assert not site.guessed
    assert site.unread == ("docs/b.rst" in files)


@pytest.mark.parametrize(
    ("files", "address"),
    [
        ({"static/CNAME": "mill.test\n"}, "https://mill.test/"),
        ({".readthedocs.yaml": ""}, "https://wind-mill.readthedocs.io/en/latest/"),
        ({}, "https://mills.github.io/Wind-Mill/"),
        ({"CNAME": "<script>"}, "https://mills.github.io/Wind-Mill/"),
    ],
)
def test_an_address_that_no_configuration_says_is_a_guess(files: dict[str, str], address: str) -> None:
    (site,) = found({"mkdocs.yml": "site_name: Mill\n", "docs/a.md": "", **files}).sites
    assert (site.site.base_url, site.guessed) == (address, True)


def test_a_folder_that_is_on_no_host_has_no_guessed_address() -> None:
    files = {"mkdocs.yml": "site_name: Mill\n", "docs/a.md": ""}
    (site,) = found(files, "local/wind-mill").sites
    assert (site.site.base_url, site.guessed) == ("", False)
    (site,) = found({**files, "CNAME": "mill.test"}, "local/wind-mill").sites
    assert site.site.base_url == "https://mill.test/"


@pytest.mark.parametrize(
    "files",
    [
        {"config.toml": "[server]\nport = 1\n", "docs/a.md": ""},
        {"hugo.toml": "= broken", "a.md": ""},
        {"docs/conf.py": "TIMEOUT = 3\n", "docs/a.md": ""},
        {"docusaurus.config.js": "}{", "README.md": ""},
        {"mkdocs.yml": ": : :", "README.md": ""},
        {"vendor/x/mkdocs.yml": MKDOCS, "vendor/x/docs/a.md": "", "README.md": ""},
    ],
)
def test_what_only_looks_like_a_site_is_none(files: dict[str, str]) -> None:
    result = found(files)
    assert result.sites == ()
    assert len(result.markdown) == 1


def test_pages_outside_of_a_site_languages_and_definitions_are_counted() -> None:
    files = {
        "README.md": "",
        "hugo.toml": HUGO,
        "content/en/a.md": "",
        "content/zh-cn/a.md": "",
        "proposals/one/README.md": "",
        "pkg/a.go": "",
        "pkg/b.go": "",
        "config/crd/mill.yaml": "kind: CustomResourceDefinition\n",
        "node_modules/x/index.js": "",
    }
    result = found(files)
    assert result.markdown == ("README.md", "proposals/one/README.md")
    assert result.languages == {"Go": 2, "YAML": 1}
    assert result.crds == 1


def test_folders_that_hold_products_name_them() -> None:
    pages = {f"docs/components/{name}/{number}.md": "" for name in ("Sails", "Mill Stone") for number in range(4)}
    result = found({**pages, "docs/components/readme.md": "", "components/one.go": ""})
    assert result.products == {
        "wind-mill": (),
        "mill-stone": ("docs/components/Mill Stone/**",),
        "sails": ("docs/components/Sails/**",),
    }
    alone = found({f"docs/components/sails/{number}.md": "" for number in range(9)})
    assert list(alone.products) == ["wind-mill"]


@pytest.mark.parametrize(("name", "made"), [("A_b.C", "a-b-c"), ("--", "project"), ("x" * 90, "x" * 63)])
def test_names_become_those_of_a_catalogue(name: str, made: str) -> None:
    assert slug(name) == made
