"""What a person sees of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from kubeflow_corpus.errors import StoreUnavailable
from kubeflow_corpus.ingest.progress import EVENTS_VARIABLE, Event, step

from pipelines.screen import Screen, watching


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def embedding(done: int, total: int = 200) -> Event:
    return Event("embed", "docs", "texts-0000", "progress", done=done, total=total, unit="texts")


def test_a_terminal_gets_a_bar_for_a_long_step_and_it_is_gone_when_the_step_ends() -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.show(embedding(50))
    screen.show(embedding(100))
    assert "docs embed texts-0000" in terminal.getvalue()
    assert "50%" in terminal.getvalue()
    screen.show(Event("embed", "docs", "texts-0000", "done", counts={"vectors": 200}))
    assert not screen._bars
    assert "docs embed texts-0000: done in 0.0 s (200 vectors)" in terminal.getvalue()


def test_without_a_terminal_there_are_only_whole_lines() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    for done in range(0, 200, 10):
        screen.show(embedding(done))
    screen.show(Event("fetch", "docs", "apples", "done", counts={"documents": 1234, "skipped": 2}))
    assert stream.getvalue() == "docs fetch apples: done in 0.0 s (1,234 documents, 2 skipped), 0 MB\n"


def test_steps_that_take_a_moment_are_shown_only_when_they_fail() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show(Event("resolve_revision", "docs", "apples", "done"))
    screen.show(Event("resolve_revision", "docs", "bees", "failed", problem="no such folder", remedy="Check the url"))
    assert stream.getvalue() == "docs resolve_revision bees: failed: no such folder. Check the url\n"


def test_everything_that_a_step_says_is_drawn_before_the_watch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, file = io.StringIO(), tmp_path / "events.jsonl"
    monkeypatch.setenv(EVENTS_VARIABLE, str(file))
    with watching(file, stream) as screen:
        with step("fetch", collection="docs", item="äpfel") as watch:
            watch.count(documents=3)
        with pytest.raises(StoreUnavailable), step("plan", collection="docs"):
            raise StoreUnavailable("Milvus is away", remedy="Start it")
    assert [(event.step, event.state) for event in screen.events] == [
        ("fetch", "started"),
        ("fetch", "done"),
        ("plan", "started"),
        ("plan", "failed"),
    ]
    assert "docs fetch äpfel: done" in stream.getvalue()
    assert "docs plan: failed: Milvus is away. Start it" in stream.getvalue()


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, file = io.StringIO(), tmp_path / "events.jsonl"
    monkeypatch.setenv(EVENTS_VARIABLE, str(file))
    with step("fetch", collection="docs"):
        pass
    whole = file.read_text()
    file.write_text(whole[:-20])
    with watching(file, stream) as screen:
        file.write_text(whole)
    assert [event.state for event in screen.events] == ["started", "done"]
