"""A small made-up corpus in a real Milvus Lite, embedded by the real MiniLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubeflow_corpus.chunking.compose import Budget, search_text
from kubeflow_corpus.collections import CODE, DOCS, ISSUES, SCHEMA_VERSION, CollectionSpec
from kubeflow_corpus.embedding.embedded import EmbeddedModel
from kubeflow_corpus.milvus import connect, detect_backend, disconnect
from kubeflow_corpus.records import Chunk, seal
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.rows import to_row
from kubeflow_corpus.store.schema import (
    DIMENSION_KEY,
    MODEL_KEY,
    MODEL_REVISION_KEY,
    SCHEMA_VERSION_KEY,
    collection_schema,
    index_params,
    physical_name,
    served_name,
)
from kubeflow_corpus.tokens import wordpiece_counter

LONG_LOG = "\n".join(f"line {number}: reconciling object {number * 7} of the queue" for number in range(400))


def chunk(
    unit: str,
    text: str,
    *,
    title: str = "",
    section: str = "",
    source_type: Any = "docs",
    view: str = "",
    area: Sequence[str] = (),
    version: Sequence[str] = (),
    visibility: str = "",
    repo: str = "acme/site",
    path: str = "",
    line: int = 1,
    **fields: Any,
) -> Chunk:
    path = path or unit.partition("#")[0].partition(":")[2]
    title = title or path
    header = " > ".join(filter(None, (title, section)))
    budget = Budget(wordpiece_counter(), 256)
    embedding, _ = budget.embedding_text(header, text)
    return Chunk(
        document_id=unit.partition("#")[0],
        unit_id=unit,
        view=view,
        chunk_index=0,
        start_line=line,
        end_line=line + text.count("\n"),
        title=title,
        section_path=section,
        content_text=text,
        search_text=search_text(title, section, text),
        embedding_text=embedding,
        citation_url=f"https://docs.example.org/{unit}",
        file_path=path,
        repo=repo,
        source="site",
        source_type=source_type,
        product_area=tuple(area),
        version=tuple(version),
        revision="0" * 40 if source_type != "issue" else "",
        updated_at="2025-03-01T00:00:00Z",
        visibility=visibility,
        fields=fields,
    )


def _release(number: str, date: str, path: str) -> Chunk:
    precise = (number, number.rpartition(".")[0])
    text = f"Kubeflow {number} (tag v{number}) was released and published on {date}."
    return chunk(
        f"site:{path}", text, title=f"Kubeflow {number} release date", version=precise, area=["platform"],
        doc_type="release_notes", release_date=date,
    )  # fmt: skip


def docs_chunks() -> list[Chunk]:
    pages = [
        chunk(
            "site:caching.md#use", "Caching is enabled by default. Call `.set_caching_options(False)` on a task to "
            "switch the reuse of step results off. See [the reference](https://kfp.example.org/ref) or "
            "https://example.org/more.",
            title="Use Caching", section="How to use caching", area=["pipelines"], version=["v2"], doc_type="docs",
        ),
        chunk(
            "site:caching.md#expire", "Cached results expire never unless the server sets a maximum staleness.",
            title="Use Caching", section="Expiry", area=["pipelines"], version=["v2"], doc_type="docs", line=40,
        ),
        chunk(
            "site:legacy-v1/caching.md#use", "Caching is enabled by default. Call `.set_caching_options(False)` on a "
            "task to switch the reuse of step results off. See the reference or more. In v1 "
            "set `max_cache_staleness` to `P30D`.",
            title="Use Caching", section="How to use caching", area=["pipelines"], version=["v1"], doc_type="docs",
        ),
        chunk(
            "site:early.md#stop", "Early stopping ends Katib trials whose metric no longer improves. The algorithm is "
            "`medianstop`; it works with the `StdOut` or `File` metrics collectors.",
            title="Early stopping", section="Algorithms", area=["katib"], doc_type="docs",
        ),
        chunk(
            "site:env.md#katib", "| Variable | Default |\n| --- | --- |\n| `KATIB_DB_MANAGER_SERVICE_PORT` | `6789` |",
            title="Environment variables", section="DB manager", area=["katib"], doc_type="docs",
        ),
        chunk(
            "site:canary.md#field", "Set `canaryTrafficPercent` of an InferenceService to send a share of the traffic "
            "to the latest revision.", title="Canary rollout", area=["kserve"], doc_type="docs",
        ),
        chunk(
            "site:internal.md#x", "The staging dashboard password is rotated by the platform team every Monday.",
            title="Internal notes", visibility="team-a", area=["platform"], doc_type="docs",
        ),
        chunk(
            "site:sequence.md#router", "A Sequence router executes its steps in order, one after another.",
            title="Inference graph", section="Sequence", area=["kserve"], doc_type="docs",
        ),
        chunk(
            "site:switch.md#router", "A Switch router executes the first step whose condition matches.",
            title="Inference graph", section="Switch", area=["kserve"], doc_type="docs",
        ),
    ]  # fmt: skip
    for number, kserve in (("1.9", "v0.13.0"), ("1.10", "v0.15.0")):
        pages.append(
            chunk(
                f"site:kubeflow-{number}.md#components",
                f"| Component | Version |\n| --- | --- |\n| KServe | {kserve} |\n| Katib | v0.{number[-1]}7.0 |",
                title=f"Kubeflow {number}",
                section="Component versions",
                version=[number],
                area=["platform", "kserve", "katib"],
                doc_type="release_notes",
            )
        )
    dates = (("1.9.1", "2024-10-28"), ("1.10.0", "2025-03-31"), ("1.8.0", "2023-11-01"), ("26.03.1", "2026-05-04"))
    pages += [_release(number, date, f"release-info/v{number}.json") for number, date in dates]
    return pages


def issue_chunks() -> list[Chunk]:
    def thread(number: int, title: str, text: str, state: str, reason: str, **more: Any) -> Chunk:
        return chunk(
            f"issues:acme/kfp/{number}", text, title=title, source_type="issue", repo="acme/kfp",
            path=f"issues/acme/kfp/{number}", issue_number=number, state=state, state_reason=reason,
            labels=tuple(more.pop("labels", ())), created_at=f"2025-0{number % 9 + 1}-01T00:00:00Z",
            closed_at="2025-09-01T00:00:00Z" if state == "closed" else "", resolved=reason == "completed", **more,
        )  # fmt: skip

    return [
        thread(
            11, "ImagePullBackOff after an upgrade", "After upgrading, pods stay in ImagePullBackOff.\nFixed by "
            "setting imagePullSecrets on the default-editor service account.", "closed", "completed",
            labels=["kind/bug"],
            area=["pipelines"],
        ),
        thread(
            12, "ImagePullBackOff on arm64", "Pods stay in ImagePullBackOff on arm64 nodes.", "open", "",
            area=["pipelines"],
        ),
        thread(13, "Controller log floods", LONG_LOG + "\npanic: runtime error: invalid memory address\n", "closed",
               "not_planned", area=["katib"]),
    ]  # fmt: skip


def code_chunks() -> list[Chunk]:
    crd = "manifests:crd.yaml#kubeflow.org/TrainJob"
    common: dict[str, Any] = {
        "title": "TrainJob", "source_type": "manifest", "repo": "acme/trainer", "path": "crd.yaml", "area": ["trainer"],
        "kind": "CustomResourceDefinition", "language": "yaml", "resource_name": "trainjobs.trainer.kubeflow.org",
        "api_version": "apiextensions.k8s.io/v1",
    }  # fmt: skip
    rows = [chunk(crd, "kind: TrainJob\ngroup: trainer.kubeflow.org\nversions: v1alpha1", view="", **common)]
    for number in range(60):
        name = "managedBy" if number == 41 else f"field{number}"
        text = f"TrainJob spec.{name} <string> - description number {number} of the field {name}"
        text += ' default "trainer.kubeflow.org/trainjob-controller"' if number == 41 else ""
        text = "\n".join(
            [text, *(f"TrainJob spec.{name}.child{child} <string> - a nested value" for child in range(8))]
        )
        rows.append(chunk(crd, text, view=f"field:spec.{name}", line=number + 10, **common))
    rows.append(
        chunk(
            "manifests:config.yaml#v1/ConfigMap/kube-system/trainer-config",
            'data:\n  maxLatency: "5000"\n  webhook: "https://hooks.example.org/x"', title="trainer-config",
            source_type="manifest", repo="acme/trainer", path="config.yaml", area=["trainer"], kind="ConfigMap",
            language="yaml", resource_name="trainer-config", api_version="v1",
        )
    )  # fmt: skip
    rows.append(
        chunk(
            "code:defaults.go#DefaultReplicas", "// DefaultReplicas is the number of replicas.\nconst DefaultReplicas "
            "= ptr.To[int32](1) // see https://example.org/replicas", title="defaults.go", section="DefaultReplicas",
            source_type="code", repo="acme/trainer", path="defaults.go", area=["trainer"], kind="const", language="go",
            symbol="DefaultReplicas",
        )
    )  # fmt: skip
    return rows


MODEL = EmbeddedModel()


def fill(
    uri: str,
    contents: Sequence[tuple[CollectionSpec, list[Chunk]]] = (),
    *,
    prefix: str = "",
    bm25: bool = True,
    alias: bool = True,
    model: str = "",
    version: int = 1,
) -> None:
    """Writes collections as a version behind their aliases."""
    settings = Settings(milvus_uri=uri)
    client = connect(settings)
    backend = replace(detect_backend(client), bm25=bm25)
    identity = MODEL.identity
    for spec, chunks in contents or everything():
        served = served_name(prefix, spec.alias)
        name = physical_name(served, version)
        properties = {
            SCHEMA_VERSION_KEY: SCHEMA_VERSION,
            MODEL_KEY: model or identity.model,
            MODEL_REVISION_KEY: identity.revision if not model else "",
            DIMENSION_KEY: str(identity.dimension),
        }
        client.create_collection(
            name,
            schema=collection_schema(spec, backend, identity.dimension),
            index_params=index_params(backend),
            properties=properties,
        )
        vectors = MODEL.embed([part.embedding_text for part in chunks])
        rows = [{**to_row(spec, part), "vector": vector} for part, vector in zip(chunks, vectors, strict=True)]
        client.upsert(name, rows)
        client.flush(name)
        if alias:
            client.create_alias(name, served)
    disconnect(client, settings)


def everything() -> list[tuple[CollectionSpec, list[Chunk]]]:
    """The three collections, each document sealed on its own."""
    return [(spec, sealed(chunks)) for spec, chunks in
            ((DOCS, docs_chunks()), (ISSUES, issue_chunks()), (CODE, code_chunks()))]  # fmt: skip


def public() -> list[tuple[CollectionSpec, list[Chunk]]]:
    """The three collections as if no group had ever written anything."""
    return [(spec, [part for part in chunks if not part.visibility]) for spec, chunks in everything()]


def with_rows_of(*groups: str) -> list[tuple[CollectionSpec, list[Chunk]]]:
    """The public collections, and rows of groups in each of them: newer than all others, with names of their own."""
    return [
        (spec, chunks + sealed([_of_group(spec, group, number) for group in groups for number in range(3)]))
        for spec, chunks in public()
    ]


def _of_group(spec: CollectionSpec, group: str, number: int) -> Chunk:
    # Among the values are some that public rows hold as well, so that counts tell too.
    own: dict[str, dict[str, Any]] = {
        DOCS.alias: {"doc_type": "docs", "release_date": "2031-01-01"},
        ISSUES.alias: {
            "issue_number": 900 + number, "state": "open", "state_reason": f"{group}-reason",
            "labels": (f"{group}-label", "kind/bug"), "created_at": "2031-01-01T00:00:00Z", "resolved": True,
        },
        CODE.alias: {
            "kind": f"{group}Kind", "language": f"{group}-language", "symbol": f"{group}Symbol",
            "api_version": f"{group}/v1", "resource_name": f"{group}-name",
        },
    }  # fmt: skip
    made = chunk(
        f"manual:{group}-{number}#one", f"The secret of {group} is its caching number {number}.",
        title=f"Secret of {group}", source_type=spec.source_types[0], visibility=group, repo=f"{group}/manual",
        path=f"{group}-{number}.md", area=["spark", "katib"], version=["9.9"], **own[spec.alias],
    )  # fmt: skip
    return replace(made, source=f"manual-{group}", updated_at="2031-01-01T00:00:00Z")


def sealed(chunks: list[Chunk]) -> list[Chunk]:
    documents: dict[str, list[Chunk]] = {}
    for part in chunks:
        documents.setdefault(part.document_id, []).append(part)
    return [part for parts in documents.values() for part in seal(parts)]


def database(folder: Path) -> str:
    uri = str(folder / "corpus.db")
    fill(uri)
    return uri
