"""A run as one HTML page that opens offline: figures, plots as inline SVG, and what failed or was left out."""

from __future__ import annotations

import html
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.store.apply import RunRecord
from kubeflow_corpus.store.rows import in_batches
from kubeflow_corpus.tokens import TokenCounter

_BUCKET_TOKENS: Final = 32
_TEXTS_PER_CALL: Final = 512
_BARS: Final = 20
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } th, td { padding: .25rem .8rem; text-align: right }
th { border-bottom: 2px solid #8a94a0 } td { border-bottom: 1px solid #d9dee3 }
th:first-child, td:first-child { text-align: left } .bad { color: #a4161a; font-weight: 600 } .good { color: #1a7431 }
svg { max-width: 100%; height: auto }
"""


def token_histogram(files: Sequence[Path], counter: TokenCounter) -> dict[str, int]:
    """Counts the tokens of embedding texts, in buckets.

    Args:
        files: Chunk files, read as streams.
        counter: Counts tokens of the embedding model.

    Returns:
        Number of chunks by bucket (``0-31``, ``32-63``, ...), in ascending order.
    """
    texts: Iterator[str] = (chunk.embedding_text for file in files for chunk in read_chunks(file))
    found: Counter[int] = Counter()
    for batch in in_batches(texts, _TEXTS_PER_CALL):
        found.update(count // _BUCKET_TOKENS for count in counter.count_many(batch))
    return {
        f"{bucket * _BUCKET_TOKENS}-{(bucket + 1) * _BUCKET_TOKENS - 1}": found[bucket]
        for bucket in range(max(found, default=-1) + 1)
    }


def to_html(record: RunRecord, tokens: Mapping[str, int]) -> str:
    """Returns the report of a run.

    Args:
        record: What the run did.
        tokens: What `token_histogram` returned.
    """
    title = f"{record.alias}: {record.mode} run, {record.outcome}"
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(_headline(record))}</p>",
        *_problems(record),
        "<h2>Documents by source</h2>",
        _table("source", record.documents, ("held", "added", "changed", "unchanged", "deleted")),
        "<h2>Rows by product area</h2>",
        _bars(record.areas, "rows", "Rows by product area"),
        "<h2>Chunk sizes</h2>",
        _columns(tokens, "chunks", "Tokens of the embedding text, by chunk"),
        "<h2>Left out, by reason</h2>",
        _bars(record.skipped, "documents", "Documents that give no row") if record.skipped else "<p>Nothing.</p>",
        "<h2>Steps</h2>",
        _table("phase", {phase: {"seconds": value} for phase, value in record.seconds.items()}, ("seconds",)),
        _table("figure", {name: {"value": value} for name, value in _figures(record).items()}, ("value",)),
    ]
    body = "\n".join(parts)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _headline(record: RunRecord) -> str:
    why = f" because {'; '.join(record.reasons)}" if record.reasons else ""
    before = f", {record.previous} before" if record.previous and record.previous != record.target else ""
    return f"Wrote {record.target}{before}, from {record.started_at} to {record.finished_at}{why}."


def _problems(record: RunRecord) -> Iterator[str]:
    lines = [f"source {item['source']} failed in step {item['step']}: {item['error']}" for item in record.failed]
    lines += [f"gate: {line}" for line in record.gate.get("failures", ())]
    lines += [f"source {source} was not read to its end; the next run goes on" for source in record.unfinished]
    lines += [f"source {source} is held and no longer in the catalogue" for source in record.orphans]
    if lines:
        yield "<ul>" + "".join(f"<li class='bad'>{html.escape(line)}</li>" for line in lines) + "</ul>"
    else:
        yield "<p class='good'>Nothing failed.</p>"


def _figures(record: RunRecord) -> dict[str, int]:
    sizes = {f"bytes of {what}": size for what, size in record.bytes.items()}
    return {**record.rows, "texts embedded": record.embedded, "vectors reused": record.reused, **record.counts, **sizes}


def _table(first: str, rows: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (first, *columns))
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{values.get(column, 0):,}</td>" for column in columns)
        + "</tr>"
        for name, values in rows.items()
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _bars(values: Mapping[str, int], unit: str, title: str) -> str:
    shown = sorted(values.items(), key=lambda item: (item[1], item[0]))[-_BARS:]
    return _plot([name for name, _ in shown], [count for _, count in shown], unit, title, horizontal=True)


def _columns(values: Mapping[str, int], unit: str, title: str) -> str:
    return _plot(list(values), list(values.values()), unit, title, horizontal=False)


def _plot(names: list[str], counts: list[int], unit: str, title: str, *, horizontal: bool) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    if not names:
        return "<p>Nothing.</p>"
    # Names come from sources: a dollar sign would be read as a formula.
    labels = [name.replace("$", r"\$") for name in names]
    # A fixed salt: the same figures give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "kubeflow-corpus"}):
        figure = Figure(figsize=(9, 1.2 + 0.3 * len(names)) if horizontal else (9, 3.2), layout="constrained")
        axes = figure.add_subplot()
        if horizontal:
            axes.barh(labels, counts, color="#3566a5")
            axes.set_xlabel(unit)
        else:
            axes.bar(labels, counts, color="#3566a5")
            axes.set_ylabel(unit)
            axes.tick_params(axis="x", rotation=45)
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
