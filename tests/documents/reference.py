"""The reference pages, made from the code that they are about: ``python -m tests.documents.reference`` writes them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from kubeflow_corpus.cli.main import COMMANDS, PROGRAM
from kubeflow_corpus.issuer.settings import IssuerSettings
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.schemas import ANSWER_URI, answer_schema
from kubeflow_corpus.operations.milvus_access import MilvusAccess
from kubeflow_corpus.service_settings import ServiceSettings
from kubeflow_corpus.settings import Secret, Settings
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from pipelines.cluster import KfpSettings

DOCUMENTS: Final = Path(__file__).parents[2] / "docs" / "reference"
MADE: Final = "<!-- Made by `make docs` from the code: change it there. -->"
SERVICES: Final[dict[str, type[ServiceSettings]]] = {
    "The MCP server": ServerSettings,
    "The session issuer": IssuerSettings,
    "The bootstrap job of Milvus": MilvusAccess,
    "The server of Kubeflow Pipelines": KfpSettings,
}


def settings_page() -> str:
    """Returns the page of environment variables."""
    lines = [MADE, "# Settings", "", "Every setting is an environment variable; a blank one counts as unset.", ""]
    lines += ["## Everywhere", "", "| variable | default | what it is |", "| --- | --- | --- |"]
    for item in fields(Settings):
        # The variable itself may be set where this runs.
        with patch.dict(os.environ, {item.name.upper(): ""}):
            default = item.default if item.default is not MISSING else item.default_factory()  # type: ignore[misc]
        lines.append(_row(item.name.upper(), _shown(default), item.metadata["description"]))
    for title, settings in SERVICES.items():
        lines += ["", f"## {title}", "", "| variable | default | what it is |", "| --- | --- | --- |"]
        prefix = settings.model_config.get("env_prefix", "")
        for name, field in settings.model_fields.items():
            default = field.get_default(call_default_factory=not field.default_factory_takes_validated_data)
            variable = str(field.validation_alias or f"{prefix}{name}".upper())
            lines.append(_row(variable, _shown(default), field.description or ""))
    return "\n".join(lines) + "\n"


def _row(name: str, default: str, description: str) -> str:
    return f"| `{name}` | {default} | {_cell(description)} |"


def _shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if isinstance(default, (Secret, SecretStr)) or default in ("", (), None):
        return ""
    if isinstance(default, tuple):
        default = ", ".join(map(str, default))
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def commands_page() -> str:
    """Returns the page of commands and their options."""
    lines = [MADE, "# Commands", ""]
    lines += [f"`{PROGRAM} COMMAND --help` says the same. Settings come from [environment variables](settings.md).", ""]
    lines += ["| command | what it does | extra |", "| --- | --- | --- |"]
    for name, command in COMMANDS.items():
        lines.append(f"| [`{name}`](#{name}) | {_cell(command.summary)} | {command.extra} |")
    for name, command in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}")
        import_module(command.module).add_arguments(parser)
        lines += ["", f"## {name}", "", f"{command.summary[0].upper()}{command.summary[1:]}."]
        lines += _parser(parser, name)
    return "\n".join(lines) + "\n"


def _parser(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    nested = [action for action in shown if isinstance(action, argparse._SubParsersAction)]
    own = [action for action in shown if action not in nested]
    if own:
        yield from ("", "| argument | default | what it is |", "| --- | --- | --- |")
        for action in own:
            yield f"| {_argument(action)} | {_default(action)} | {_cell(_help(action, parser))} |"
    for action in nested:
        for child, child_parser in action.choices.items():
            yield from ("", f"### {name} {child}")
            yield from _parser(child_parser, f"{name} {child}")


def _argument(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return f"`{value}`"
    return f"`{', '.join(action.option_strings)}{f' {value}' if action.nargs != 0 else ''}`".replace("|", "\\|")


def _default(action: argparse.Action) -> str:
    default = action.default
    if default is True or default == argparse.SUPPRESS or not default:
        return ""
    return f"`{default}`"


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""
    if action.choices and not action.metavar:
        return f"{text} ({', '.join(str(choice) for choice in action.choices if choice)})"
    return text


def answer_page() -> str:
    """Returns the page of what a search answers over MCP."""
    schema = answer_schema()
    lines = [MADE, "# Answers over MCP", "", schema["description"], ""]
    lines += [f"[`answer.schema.json`](answer.schema.json) is its JSON schema; a server has it as `{ANSWER_URI}`."]
    for title, part in (("Answer", schema), ("Citation", schema["$defs"]["citation"])):
        lines += ["", f"## {title}", "", "| field | type | what it is |", "| --- | --- | --- |"]
        for name, field in part["properties"].items():
            required = "" if name in part["required"] else "; not in every one"
            lines.append(
                f"| `{name}` | {field.get('type', 'string')}{required} | {_cell(field.get('description', ''))} |"
            )
    return "\n".join(lines) + "\n"


def answer_json() -> str:
    """Returns the JSON schema of what a search answers over MCP."""
    return json.dumps(answer_schema(), indent=2, ensure_ascii=False) + "\n"


PAGES: Final = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "answer.md": answer_page,
    "answer.schema.json": answer_json,
}


if __name__ == "__main__":
    for name, make in PAGES.items():
        (DOCUMENTS / name).write_text(make(), encoding="utf-8")
