"""What a reader of a Hugo site sees of its shortcodes: templates of the repository, parameters, files, marks."""

from __future__ import annotations

from typing import Any

import pytest
from kubeflow_corpus.chunking.docs import markdown
from kubeflow_corpus.records import Chunked
from kubeflow_corpus.sites.base import Page, RepositoryPaths, Site
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sites.shortcodes import rewrite_shortcodes

from tests.chunking.doc_samples import budget, page, partition_problem

SHORTCODES = "layouts/shortcodes/"


def shown(text: str, templates: dict[str, str] | None = None, **metadata: Any) -> str:
    """Returns the rewritten body; `templates` are files by path, of shortcodes where it has no folder."""
    files = {
        path if "/" in path else f"{SHORTCODES}{path}.html": content for path, content in (templates or {}).items()
    }
    return "\n".join(rewrite_shortcodes(Page.read(page(text, files=files, **metadata))).lines)


def cut(text: str, **metadata: Any) -> Chunked:
    document = page(text, **metadata)
    chunked = markdown.chunk(document, budget())
    assert partition_problem(document, chunked) == ""
    return chunked


def test_a_template_that_is_text_is_in_commands_as_on_the_site() -> None:
    text = "Intro.\n\n```bash\nexport V={{% pipelines/latest-version %}}\ngit clone -b v{{< tag >}}.x\n```\n"
    chunked = cut(
        text, files={f"{SHORTCODES}pipelines/latest-version.html": "2.17.0\n\n", f"{SHORTCODES}tag.html": "3"}
    )
    assert "export V=2.17.0\ngit clone -b v3.x" in chunked.chunks[0].content_text
    assert not any(name.startswith("shortcode") for name in chunked.counts)


@pytest.mark.parametrize(
    ("template", "text", "wanted"),
    [
        ('{{ .Get 0 }}-{{ .Get "b" }}', "{{< x a >}}", "a-"),
        ('{{- $v := .Get "v" | default "9" -}}v{{ $v }}', "{{< x >}}", "v9"),
        ('{{ with .Get "n" }}[{{ . }}]{{ else }}none{{ end }}', '{{< x n="1" >}}', "[1]"),
        ('{{ if eq (.Get 0) "a" }}A{{ else if eq (.Get 0) "b" }}B{{ else }}C{{ end }}', "{{< x b >}}", "B"),
        ('{{ range $i, $e := slice "p" "q" }}{{ $i }}{{ $e }}{{ end }}', "{{< x >}}", "0p1q"),
        (r"{{ replaceRE `^(\d+)\.(\d+).*` `$1.$2` (.Get 0) }}", "{{< x 1.10.2 >}}", "1.10"),
        ('{{ printf "%s/%d" (.Get 0) 3 }}', "{{< x a >}}", "a/3"),
        ("{{ .Page.Param (.Get 0) }}", "{{< x p >}}", "of the site"),
        ("{{ .Site.Params.p }}{{ site.Params.P }}", "{{< x >}}", "of the siteof the site"),
        ("{{ site.Data.releases.latest.tag }}", "{{< x >}}", "v3"),
        ("{{ .Get 0 }}", '{{< x "<b>" >}}', "&lt;b&gt;"),
        ('{{/* don\'t `show` */}}{{ "{{" }}', "{{< x >}}", "{{"),
        ('{{ partial "p.html" . }}', "{{< x q >}}", "partial q"),
    ],
)
def test_what_documentation_sites_write_in_templates_is_rendered(template: str, text: str, wanted: str) -> None:
    files = {
        "x": template,
        "data/releases.yaml": "latest: {tag: v3}",
        "layouts/partials/p.html": "partial {{ .Get 0 }}",
    }
    assert shown(f"- {text}", files, site={"params": {"p": "of the site"}}) == f"- {wanted}"


def test_what_a_shortcode_encloses_stays_markdown_where_the_template_places_it() -> None:
    templates = {"box": '<div class="x">\n\n  <h4>{{ .Get "title" }}</h4>\n{{ .Inner | markdownify }}\n</div>'}
    chunked = cut(
        '# T\n\n{{< box title="Mind" >}}\nUse **this** `tool`:\n\n- one\n{{< /box >}}\nAfter.\n',
        files={f"{SHORTCODES}box.html": templates["box"]},
    )
    content = chunked.chunks[0].content_text
    assert "Mind" in content and "Use this `tool`:" in content and "- one" in content and "After." in content
    assert "<div" not in content and "</div>" not in content


def test_what_a_template_does_not_place_is_not_shown() -> None:
    assert shown("a {{< x >}}hidden{{< /x >}} b", {"x": "seen"}) == "a seen b"


@pytest.mark.parametrize(
    "template",
    [
        "{{ range seq 9999 }}{{ range seq 9999 }}x{{ end }}{{ end }}",
        "{{ range seq 999999999999 }}{{ end }}",
        '{{ $x := "aaaaaaaaaa" }}' + '{{ $x = printf "%s%s" $x $x }}' * 60 + "{{ $x }}",
        '{{ $x := "aaaaaaaaaa" }}' + '{{ $x = replace $x "a" $x }}' * 20 + "{{ $x }}",
        "{{ $x := slice 1 }}" + "{{ $x = slice $x $x }}" * 60 + "{{ $x }}",
        "{{ $x := 9 }}" + "{{ $x = mul $x $x }}" * 60 + "{{ $x }}",
        '{{ partial "self" . }}',
        "{{ if true }}" * 5_000,
        "{{ " + "(" * 5_000,
        "{{ if true }}",
        "{{ end }}",
        "{{ .Page.Resources.Get }}",
        '{{ readFile "../../../../etc/passwd" }}',
        '{{ readFile "/etc/passwd" }}',
        '{{ resources.GetRemote "https://example.invalid" }}',
        '{{ replaceRE "(a+)+$" "" (.Get 0) }}',
        "{{ unknown }}",
        "{{ 'x' }}",
    ],
)
def test_a_template_that_cannot_be_rendered_leaves_a_counted_mark_in_code_and_never_hangs(template: str) -> None:
    files = {f"{SHORTCODES}x.html": template, "layouts/partials/self.html": '{{ partial "self" . }}'}
    chunked = cut("Run:\n\n```\nkubectl get -f {{< x aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! >}}\n```\n", files=files)
    assert "kubectl get -f {x aaaa" in chunked.chunks[0].content_text
    assert chunked.counts["shortcode:x"] == 1


def test_an_unknown_shortcode_leaves_a_mark_in_code_and_tables_and_nothing_in_prose() -> None:
    text = '| a |\n| --- |\n| {{< check >}} |\n\nRun `get {{< url name="x" >}}` now{{< icon >}}.\n'
    chunked = cut(text)
    assert "| {check} |" in chunked.chunks[0].content_text
    assert "Run `get {url name=x}` now." in chunked.chunks[0].content_text
    assert {name: count for name, count in chunked.counts.items() if name.startswith("shortcode")} == {
        "shortcode:check": 1,
        "shortcode:url": 1,
        "shortcode:icon": 1,
    }


@pytest.mark.parametrize(
    ("front", "inherited", "wanted"),
    [("v: page", {"v": "section"}, "page"), ("t: x", {"v": "section"}, "section"), ("t: x", {}, "site")],
)
def test_a_parameter_is_asked_of_page_section_and_site_in_this_order(
    front: str, inherited: dict[str, str], wanted: str
) -> None:
    text = f"---\n{front}\n---\n`git clone -b {{{{< param v >}}}} x`"
    assert wanted in shown(text, inherited=inherited, site={"params": {"v": "site"}})


def test_a_reference_keeps_a_target_so_that_its_words_are_a_link() -> None:
    chunked = cut('See [Platforms][p] and [one]({{< relref "a b" >}}).\n\n[p]: {{< ref "y" >}}\n[q]: https://q.test\n')
    assert chunked.chunks[0].content_text == "See Platforms and one."


def test_files_that_a_page_includes_are_shown_where_it_includes_them() -> None:
    files = {
        "examples/job.yaml": "kind: Job\nmetadata: {}\n",
        "content/en/docs/part.md": "---\nt: 1\n---\n## Part\n\nBody.\n",
    }
    chunked = cut(
        'Intro text.\n\n{{< include "examples/job.yaml" "yaml" >}}\n\n{{% include "part.md" %}}\n\n## End\n\nLast.\n',
        files=files,
    )
    content = "\n".join(row.content_text for row in chunked.chunks)
    assert "kind: Job\nmetadata: {}" in content and "Body." in content
    assert [row.citation_url.partition("#")[2] for row in chunked.chunks][-1:] in (["end"], ["part"])


def test_highlighted_text_is_code() -> None:
    assert "`````go\nx := *y*\n`````" in shown("{{< highlight go >}}\nx := *y*\n{{< /highlight >}}")


def test_only_files_of_the_repository_are_asked_for() -> None:
    known = RepositoryPaths(
        ["layouts/shortcodes/x.html", "themes/t/layouts/shortcodes/x.html", "a/b.yaml", "data/d.yaml"]
    )
    hugo, site = generator_named("hugo"), Site("hugo", "content/en", "https://x.test/")
    asked = set(hugo.companions("content/en/p.md", '{{< x "../../b.yaml" >}} {{% y /etc/passwd.txt %}}', site, known))
    assert asked - {""} == {"layouts/shortcodes/x.html", "a/b.yaml"}
    template = '{{ readFile "a/b.yaml" }}{{ site.Data.d.x }}{{ partial "q" }}'
    named = set(hugo.companions("layouts/shortcodes/x.html", template, site, known))
    assert {"a/b.yaml", "data/d.yaml", "layouts/partials/q.html"} <= named
