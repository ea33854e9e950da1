"""The last step of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeflow_corpus.errors import RunFailed
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.ingest.step import read_result
from kubeflow_corpus.ingest.summary import Failure, failures, summary_lines
from kubeflow_corpus.settings import Secret, Settings

_WEBHOOK_TIMEOUT_SECONDS: Final = 10
# Chat services cut or refuse longer messages.
_WEBHOOK_CHARACTERS: Final = 3000
_CRASHED: Final = frozenset({"FAILED", "ERROR"})
CRASH_REMEDY: Final = "Look at the pods of the run (out of memory?) and run again: what was indexed before is served"


def report(published: Sequence[str]) -> None:
    """Prints how it went with every source, notifies the webhook of failures, and raises where there are any.

    Args:
        published: Folders that `publish` wrote, one per collection.

    Raises:
        RunFailed: Something failed; `fields` has ``failures``. The rest of the run is done and served.
    """
    results = [read_result(folder) for folder in published]
    for result in results:
        for line in summary_lines(result):
            print(line)
    found = [failure for result in results for failure in failures(result)]
    with step("report"):
        if found:
            failed = run_failed(found)
            notify(Settings.from_env().notify_webhook_url, str(failed))
            raise failed


def notify_crash(collection: str, run: str, state: str, message: str) -> None:
    """Notifies the webhook of steps that ended early: killed, out of memory, or a defect.

    The results of the steps pass every error that they understand to the report, which then notifies: of one failure
    only one of the two speaks.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        run: Name of the run.
        state: How KFP says that the steps ended.
        message: What KFP says of it; may be empty.
    """
    if state not in _CRASHED:
        # Some servers call a graph that ended well RUNNING, because of its loops: no false alarm each night.
        print(f"{collection}: KFP says of the steps: {state or 'nothing'}. There is nothing to report")
        return
    cause = " ".join(message.split()).rstrip(".") or "KFP does not say which step, or why"
    text = f"{collection}: run {run} ended before its report: {cause}. {CRASH_REMEDY}"
    print(text)
    notify(Settings.from_env().notify_webhook_url, text)


def run_failed(found: Sequence[Failure]) -> RunFailed:
    """Returns one error that names everything that failed."""
    lines = "; ".join(failure.line() for failure in found)
    fields = [
        {"collection": failure.collection, "source": failure.source, "step": failure.step, "cause": failure.cause}
        for failure in found
    ]
    return RunFailed(lines, failures=fields)


def notify(webhook: Secret, text: str) -> None:
    """Posts a text to a webhook, where there is one. That it cannot be reached must not hide the failure itself."""
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
        print(f"The webhook was not notified: {type(error).__name__}. Check NOTIFY_WEBHOOK_URL")
