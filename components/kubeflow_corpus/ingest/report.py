"""The last step of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kubeflow_corpus.errors import RunFailed
from kubeflow_corpus.ingest.outcomes import Outcome, read_outcome
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.ingest.summary import Failure, failures, reasons, table, text_table, totals
from kubeflow_corpus.settings import Secret, Settings

_WEBHOOK_TIMEOUT_SECONDS: Final = 10
# Chat services cut or refuse longer messages.
_WEBHOOK_CHARACTERS: Final = 3000
_BROKEN_OFF: Final = frozenset({"FAILED", "ERROR"})
CRASH_REMEDY: Final = "Look at the pods of the run (out of memory?) and run again: what was indexed before is served"


def report_run(published: Mapping[str, str]) -> None:
    """Prints what became of every source, tells the webhook of failures, and raises where there are any.

    Args:
        published: Collection to the folder that its `publish` wrote.

    Raises:
        RunFailed: Something failed; `fields` has ``failures``. The rest of the run is done and served.
    """
    outcomes = {collection: read_outcome(Path(folder)) for collection, folder in published.items()}
    for collection, outcome in outcomes.items():
        for line in summary_lines(collection, outcome):
            print(line)
    found = [failure for collection, outcome in outcomes.items() for failure in failures(collection, outcome)]
    with step("report"):
        if found:
            failed = run_failed(found)
            notify(Settings.from_env().notify_webhook_url, str(failed))
            raise failed


def tell_of_crash(collection: str, run: str, state: str, message: str) -> None:
    """Tells the webhook that the steps of a collection broke off: killed, out of memory, or a defect.

    What the steps understand they hand on to the report, which then tells of it; here the two never overlap.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        run: Name of the run.
        state: How KFP says that the steps ended.
        message: What KFP says of it; may be empty.
    """
    if state not in _BROKEN_OFF:
        # Some servers call a graph that ended well RUNNING, because of its loops: no false alarm each night.
        print(f"{collection}: KFP says of the steps: {state or 'nothing'}. There is nothing to tell")
        return
    cause = " ".join(message.split()).rstrip(".") or "KFP does not say which step, or why"
    text = f"{collection}: run {run} broke off before its report: {cause}. {CRASH_REMEDY}"
    print(text)
    notify(Settings.from_env().notify_webhook_url, text)


def summary_lines(collection: str, outcome: Outcome) -> list[str]:
    """Returns what became of a collection as lines of text."""
    header, rows = table(outcome)
    head = f"{collection}: {totals(outcome) or ('nothing was done' if outcome.sources else 'no source')}"
    return [head, *text_table(header, rows), *reasons(outcome)] if rows else [head]


def run_failed(found: Sequence[Failure]) -> RunFailed:
    """Returns one error that names everything that failed."""
    lines = "; ".join(failure.line() for failure in found)
    fields = [
        {"collection": failure.collection, "source": failure.source, "step": failure.step, "cause": failure.cause}
        for failure in found
    ]
    return RunFailed(lines, failures=fields)


def notify(webhook: Secret, text: str) -> None:
    """Posts a text to a webhook, where there is one. That it cannot be reached must not hide what it was to be told."""
    if not webhook:
        return
    import requests

    try:
        answer = requests.post(
            webhook.reveal(), json={"text": text[:_WEBHOOK_CHARACTERS]}, timeout=_WEBHOOK_TIMEOUT_SECONDS
        )
        answer.raise_for_status()
    except requests.RequestException as error:
        # The message of the exception holds the address, whose path is often a password.
        print(f"The webhook was not told: {type(error).__name__}. Check NOTIFY_WEBHOOK_URL")
