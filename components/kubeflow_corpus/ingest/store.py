"""The steps of a run that talk to Milvus: what a collection records, what is to be done, doing it, and serving it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.collections import COLLECTIONS, find_collection
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.ingest.build import fingerprint
from kubeflow_corpus.ingest.embedding import read_refused
from kubeflow_corpus.ingest.failed import read_failed, with_failed
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.run_report import run_page, run_report
from kubeflow_corpus.ingest.step import ROWS_FILE, VECTORS_FILE, Work, read_result, read_source, run_step
from kubeflow_corpus.ingest.summary import markdown
from kubeflow_corpus.ingest.words import read_vocabulary, write_vocabulary
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.apply import apply_plan
from kubeflow_corpus.store.plan import Mode, Plan, SourceResult, plan_sync, resume_cursor
from kubeflow_corpus.store.publish import publish as publish_version
from kubeflow_corpus.store.record import RunRecord, last_run
from kubeflow_corpus.store.retry import documents_to_retry
from kubeflow_corpus.store.schema import HEAD_PREFIX, served_name
from kubeflow_corpus.store.settled import settled_sources, unchanged_plan
from kubeflow_corpus.store.versions import list_versions, live_version, properties_of, refuse_foreign, set_properties
from kubeflow_corpus.tokens import wordpiece_counter
from kubeflow_corpus.vocabulary import VOCABULARY_KEY, Vocabulary

if TYPE_CHECKING:
    from pymilvus import MilvusClient


def read_state(model: str, target: str) -> StepResult:
    """Reads what a collection records of its sources.

    Args:
        model: Folder that `describe_model` wrote.
        target: Folder for the result: cursors, failures of the last run, and what is known to be unchanged.
    """
    return run_step(read_result(model).begin("read_state"), target, _read_state)


def _read_state(work: Work[StepResult]) -> StepResult:
    before, settings = work.before, Settings.from_env()
    if not before.names:
        return before
    spec = find_collection(before.collection)
    rebuild = before.options.rebuild
    with connected(settings) as client:
        refuse_foreign(client, served_name(settings.collection_prefix, spec.alias))
        cursors = {
            source: resume_cursor(
                client, spec, source, prefix=settings.collection_prefix, recipe=before.made_with, mode=_mode(before)
            )
            for source in (before.names if before.collection == "issues" else ())
        }
        retry = documents_to_retry(
            client, spec, prefix=settings.collection_prefix, recipe=before.made_with, mode=_mode(before)
        )
        live = live_version(list_versions(client, served_name(settings.collection_prefix, spec.alias)))
        record = last_run(client, live.name) if live else None
        settled = settled_sources(client, live) if live and not rebuild else {}
    return replace(
        before,
        cursors=cursors,
        settled=settled,
        failed_in={source: record.run for source in (*(item["source"] for item in record.failed), *retry)}
        if record
        else {},
        retry=retry,
        live=live.name if live else "",
        before={"rows": record.rows, "skipped": record.skipped, "counts": record.counts} if record else {},
    )


def stored_sources(settings: Settings) -> set[str]:
    """Returns the sources of which a served version holds documents, over all collections."""
    if settings.embedded_milvus and not Path(settings.require_milvus_uri()).exists():
        return set()
    with connected(settings) as client:
        found = (
            live_version(list_versions(client, served_name(settings.collection_prefix, spec.alias)))
            for spec in COLLECTIONS
        )
        return {source for version in found if version for source in version.prefixed(HEAD_PREFIX)}


def _mode(before: StepResult) -> Mode:
    return "rebuild" if before.options.rebuild else "incremental"


def plan(state: str, chunks: Sequence[str], target: str) -> StepResult:
    """Compares what the sources have now with what is stored.

    Args:
        state: Folder that `read_state` wrote.
        chunks: Folders that `chunk` wrote.
        target: Folder for the texts to embed and the result, which has the plan.
    """
    sources = tuple(source for source in map(read_source, chunks) if source.source)
    before = replace(read_result(state).begin("plan"), sources=sources)
    # With a version that is served the run goes on, and records which sources failed; without one there is nothing
    # to write, and an empty version would only be refused by its gate.
    if before.ok and not any(source.ok for source in sources) and not (sources and before.live):
        before = replace(before, status="none")
    return run_step(before, target, _plan, chunks)


def _plan(work: Work[StepResult], chunks: Sequence[str]) -> StepResult:
    before, options = work.before, work.before.options
    # A run over some sources, or some documents of them, does not say that the others are gone.
    partial = any(source.named is not None for source in before.sources)
    covered = None if options.sources or partial else before.names
    unchanged = not (options.rebuild or options.allow_deletions) and _unchanged(before, whole=covered is not None)
    made = _unchanged_plan(before) if unchanged else _compared_plan(work, chunks, covered)
    if partial and made.mode == "rebuild":
        raise InvalidArgument(
            f"{made.served} has to be filled again ({'; '.join(made.reasons)}), which takes every document",
            remedy="Run once without changed_paths",
            argument="changed_paths",
        )
    made.check_guard()
    figures = _plan_figures(made)
    work.watch.count(**figures)
    return replace(before, plan=made, counts=figures)


def _unchanged(before: StepResult, *, whole: bool) -> bool:
    """Whether the served version is known to hold just what the sources of this run have now."""
    if not before.sources or (whole and before.settled.keys() != {source.source for source in before.sources}):
        return False
    known = before.settled
    return all(
        source.source in known and known[source.source].fingerprint == fingerprint(source) for source in before.sources
    )


def _unchanged_plan(before: StepResult) -> Plan:
    return unchanged_plan(
        find_collection(before.collection),
        {source.source: before.settled[source.source] for source in before.sources},
        prefix=Settings.from_env().collection_prefix,
        live=before.live,
        recipe=before.made_with,
        run=before.run,
    )


def _compared_plan(work: Work[StepResult], chunks: Sequence[str], covered: Sequence[str] | None) -> Plan:
    before, settings = work.before, Settings.from_env()
    with connected(settings) as client:
        made = plan_sync(
            client,
            find_collection(before.collection),
            source_results(chunks),
            prefix=settings.collection_prefix,
            recipe=before.made_with,
            counter=_LazyCounter(),
            workdir=work.folder,
            mode=_mode(before),
            run=before.run,
            catalogue_sources=covered,
            allow_deletions=before.options.allow_deletions,
        )
    shutil.rmtree(work.folder / "plan", ignore_errors=True)
    return made


class _LazyCounter:
    """The exact token counter, loaded when something is counted: only rows that people wrote need it here."""

    def count(self, text: str) -> int:
        return wordpiece_counter().count(text)

    def count_many(self, texts: list[str]) -> list[int]:
        return wordpiece_counter().count_many(texts)

    def truncate(self, text: str, tokens: int) -> str:
        return wordpiece_counter().truncate(text, tokens)


def source_results(chunks: Sequence[str]) -> list[SourceResult]:
    """Returns the sources as the store reads them."""
    return [_source_result(Path(folder)) for folder in chunks if read_source(folder).source]


def _source_result(folder: Path) -> SourceResult:
    state = read_source(folder)
    if not state.ok:
        return SourceResult(state.source, "failed", step=state.step, error=state.error)
    whole_or_threads = state.named is None or state.collection == "issues"
    failed = tuple(document.document_id for document in read_failed(folder))
    return SourceResult(
        state.source,
        complete=state.named is None and state.complete,
        partial=state.named is not None,
        reached_end=state.reached_end,
        revision=state.made_of.revision,
        fingerprint=fingerprint(state),
        cursor=state.cursor,
        chunks=folder / ROWS_FILE,
        removed_documents=state.removed
        if whole_or_threads
        else _documents_without_rows(state.source, state.named or (), folder),
        failed_documents=failed,
        skipped=dict(Counter(state.skipped) + Counter(state.left_out)),
        counts=state.figures,
    )


def _documents_without_rows(source: str, named: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Returns the documents that were asked for and have no row: a whole run would remove what is stored of them."""
    found = {chunk.document_id for chunk in read_chunks(folder / ROWS_FILE)}
    return tuple(key for key in (f"{source}:{path}" for path in named) if key not in found)


def _plan_figures(made: Plan) -> dict[str, int]:
    states = {name: made.total(name) for name in ("added", "changed", "unchanged", "deleted")}
    rows = {name.replace("_", " "): count for name, count in made.rows.items()}
    return {**states, **rows, "texts to embed": made.to_embed, "vectors reused": made.reused}


def apply(planned: str, chunks: Sequence[str], vectors: Sequence[str], target: str) -> StepResult:
    """Writes what the plan asks for.

    Args:
        planned: Folder that `plan` wrote.
        chunks: Folders that `chunk` wrote.
        vectors: Folders that `embed` wrote.
        target: Folder for the result, which has the record of the run.
    """
    before = read_result(planned)
    broken = next((shard for shard in map(read_result, vectors) if shard.failed), None)
    if before.ok and broken is not None:
        before = replace(before, step=broken.step, status="failed", problem=broken.problem, remedy=broken.remedy)
    return run_step(before.begin("apply"), target, _apply, chunks, vectors)


def _apply(work: Work[StepResult], chunks: Sequence[str], vectors: Sequence[str]) -> StepResult:
    before, settings = work.before, Settings.from_env()
    files = [Path(folder) / VECTORS_FILE for folder in vectors]
    with connected(settings) as client:
        record = apply_plan(
            client,
            before.planned,
            source_results(chunks),
            [file for file in files if file.exists()],
            work.folder,
            not_embedded=read_refused(vectors),
            embedded=settings.embedded_milvus,
            dense_index=settings.dense_index,
            counter=_LazyCounter(),
            wait_seconds=before.options.wait_seconds,
            announce=print,
            run_process=before.options.process,
        )
        words = read_vocabulary(chunks)
        if words is not None:
            _record_vocabulary(client, record.target, words)
            write_vocabulary(work.folder, words)
    shutil.rmtree(work.folder / "apply", ignore_errors=True)
    rows = {name.replace("_", " "): count for name, count in record.rows.items()}
    figures = {**rows, "embedded": record.embedded, "reused": record.reused}
    work.watch.count(**figures)
    sources = tuple(
        with_failed(_with_documents(source, record), [item for item in record.refused if item.source == source.source])
        for source in before.sources
    )
    return replace(before, record=record, counts=figures, sources=sources)


def _record_vocabulary(client: MilvusClient, name: str, words: Vocabulary) -> None:
    """Records in a version which words its rows were cut with: questions about it are read with the same."""
    text = words.to_property()
    if properties_of(client, name).get(VOCABULARY_KEY, "") != text:
        set_properties(client, name, {VOCABULARY_KEY: text})


def _with_documents(state: SourceState, record: RunRecord) -> SourceState:
    """Returns a source with the numbers of its documents that were added, changed and so on."""
    found = record.documents.get(state.source, {})
    documents = {name: found.get(name, 0) for name in ("added", "changed", "unchanged", "deleted")}
    return replace(state, counts={**state.counts, **documents})


def publish(evaluated: str, target: str, summary: str, page: str) -> StepResult:
    """Serves what was written, if the gates pass.

    Args:
        evaluated: Folder that `evaluate` wrote.
        target: Folder for the result, which has the record of the run.
        summary: File for the summary, Markdown.
        page: File for the page, HTML.
    """
    result = run_step(read_result(evaluated).begin("publish"), target, _publish)
    for file, text in ((summary, markdown(result)), (page, run_page(run_report([result])))):
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text, encoding="utf-8")
        except OSError as error:
            # What is served is served, and on a full disk the step that failed has said so.
            print(f"{Path(file).name} was not written: {error}")
    return result


def _publish(work: Work[StepResult]) -> StepResult:
    before, settings = work.before, Settings.from_env()
    record, gates = before.applied, [before.gate] if before.gate else []
    # What no source changed was served with passing gates before, and nobody asks it anything now.
    if gates or not before.planned.settled:
        with connected(settings) as client:
            record = publish_version(
                client,
                before.planned,
                record,
                gates,
                embedded=settings.embedded_milvus,
                wait_seconds=before.options.wait_seconds,
                announce=print,
            )
    work.watch.count(rows=record.rows["rows_held"])
    return replace(before, record=record)
