"""``kubeflow-corpus schedule``: makes the recurring runs of a cluster what a YAML file says.

::

    experiment: kubeflow-corpus        # optional
    schedules:
      - name: docs-daily               # unique
        pipeline: docs                 # docs, issues, code or corpus
        cron: "0 0 3 * * *"            # six fields, seconds first, UTC
        parameters: {catalogue: /etc/kubeflow-corpus/catalogue.yaml}   # optional
        enabled: true                  # optional

Doing it twice changes nothing. A schedule that changed is created again before the old one is deleted; one that is no
longer in the file is deleted. Recurring runs that this command did not make are left alone.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import kfp_server_api
from kubeflow_corpus.errors import InvalidArgument, SettingsError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipelines.cluster import Cluster, KfpSettings
from pipelines.compile import add_placement_arguments, placement_of
from pipelines.placement import Placement
from pipelines.registry import PIPELINES
from pipelines.submit import NAME_PREFIX, pipeline_arguments, upload

# In the description of each recurring run: that it is ours, and what it was made from.
_MARK: Final = "Made by python -m pipelines schedule; digest "
_DIGEST: Final = re.compile(re.escape(_MARK) + r"([0-9a-f]{64})")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*/,?#LW-]+")
_KEYS: Final = ("name", "pipeline", "cron", "parameters", "enabled")


@dataclass(frozen=True, slots=True)
class Schedule:
    """One recurring run that is wanted."""

    name: str
    pipeline: str
    cron: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    enabled: bool = True

    def digest(self, version: Any) -> str:
        """Returns a digest of everything that the recurring run depends on."""
        parts = [
            self.name,
            version.pipeline_id,
            version.pipeline_version_id,
            self.cron,
            dict(self.parameters),
            self.enabled,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("file", help="YAML of the schedules")
    add_placement_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Makes the cluster what the file says, and prints one line per schedule.

    Raises:
        CorpusError: The file, a setting, the host or the token is wrong.
    """
    placement = placement_of(args)
    experiment, schedules = read_schedules(Path(args.file))
    cluster = Cluster(KfpSettings.from_env())
    for line in apply_schedules(cluster, experiment, schedules, placement):
        print(line)
    return 0


def apply_schedules(
    cluster: Cluster, experiment: str, schedules: Sequence[Schedule], placement: Placement
) -> list[str]:
    """Creates, replaces and deletes recurring runs until they are what is wanted.

    Args:
        cluster: The server.
        experiment: Name of the experiment.
        schedules: What is wanted.
        placement: Where their steps run.

    Returns:
        One line per schedule.
    """
    experiment_id = cluster.ensure_experiment(experiment)
    existing = [recurring for recurring in cluster.recurring_runs(experiment_id) if _digest_of(recurring)]
    lines = []
    for schedule in schedules:
        version = upload(cluster, schedule.pipeline, placement)
        digest = schedule.digest(version)
        same_name = [recurring for recurring in existing if recurring.display_name == schedule.name]
        right = [recurring for recurring in same_name if _digest_of(recurring) == digest]
        if not right:
            # Before the old one goes: a failure in between leaves one too many, which the next call removes.
            cluster.create_recurring_run(_recurring_run(schedule, experiment_id, version, digest))
        for recurring in same_name:
            if recurring not in right[:1]:
                cluster.delete_recurring_run(recurring.recurring_run_id)
        state = "unchanged" if right else "replaced" if same_name else "created"
        lines.append(f"{schedule.name}: {state} ({schedule.pipeline}, {schedule.cron})")
    wanted = {schedule.name for schedule in schedules}
    for recurring in existing:
        if recurring.display_name not in wanted:
            cluster.delete_recurring_run(recurring.recurring_run_id)
            lines.append(f"{recurring.display_name}: deleted (no longer in the file)")
    return lines


def _digest_of(recurring: Any) -> str:
    match = _DIGEST.search(recurring.description or "")
    return match[1] if match else ""


def _recurring_run(schedule: Schedule, experiment_id: str, version: Any, digest: str) -> Any:
    mode = kfp_server_api.RecurringRunMode
    return kfp_server_api.V2beta1RecurringRun(
        display_name=schedule.name,
        description=f"{_MARK}{digest}",
        experiment_id=experiment_id,
        pipeline_version_reference=version,
        runtime_config=kfp_server_api.V2beta1RuntimeConfig(parameters=pipeline_arguments(schedule.parameters)),
        trigger=kfp_server_api.V2beta1Trigger(cron_schedule=kfp_server_api.V2beta1CronSchedule(cron=schedule.cron)),
        mode=mode.ENABLE if schedule.enabled else mode.DISABLE,
        # One writer a collection: a second run would only wait for the first.
        max_concurrency="1",
        # A run brings everything up to date: the ones that were missed have nothing left to do.
        no_catchup=True,
    )


def read_schedules(path: Path) -> tuple[str, list[Schedule]]:
    """Reads and checks the file.

    Returns:
        Name of the experiment, and the schedules.

    Raises:
        SettingsError: The file cannot be read or is wrong.
    """
    try:
        data = YAML(typ="safe").load(path)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise _wrong(path, f"cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict) or not isinstance(data.get("schedules"), list):
        raise _wrong(path, "has no list `schedules`")
    unknown = sorted(map(str, set(data) - {"experiment", "schedules"}))
    if unknown:
        raise _wrong(path, f"has an unknown key {unknown[0]!r}")
    schedules = [_schedule(path, number, entry) for number, entry in enumerate(data["schedules"], start=1)]
    names = [schedule.name for schedule in schedules]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(path, f"names two schedules {name!r}")
    return str(data.get("experiment") or NAME_PREFIX), schedules


def _schedule(path: Path, number: int, entry: Any) -> Schedule:
    where = f"schedule {number}"
    if not isinstance(entry, dict):
        raise _wrong(path, f"{where} is not a mapping")
    unknown = sorted(map(str, set(entry) - set(_KEYS)))
    if unknown:
        raise _wrong(path, f"{where} has an unknown key {unknown[0]!r}")
    name, pipeline, cron = (str(entry.get(key, "")) for key in ("name", "pipeline", "cron"))
    if not _NAME.fullmatch(name):
        raise _wrong(path, f"{where}: name {name!r} is not lower-case letters, digits and hyphens")
    if pipeline not in PIPELINES:
        raise _wrong(path, f"{where}: pipeline {pipeline!r} is none of {', '.join(PIPELINES)}")
    fields = cron.split()
    if len(fields) != 6 or not all(_CRON_FIELD.fullmatch(part) for part in fields):
        raise _wrong(path, f"{where}: cron {cron!r} has not six fields (seconds first)")
    parameters, enabled = entry.get("parameters") or {}, entry.get("enabled", True)
    if not isinstance(parameters, dict) or not isinstance(enabled, bool):
        raise _wrong(path, f"{where}: parameters is a mapping, enabled is true or false")
    try:
        pipeline_arguments(parameters)
    except InvalidArgument as error:
        raise _wrong(path, f"{where}: {error}") from error
    return Schedule(name, pipeline, " ".join(fields), parameters, enabled)


def _wrong(path: Path, problem: str) -> SettingsError:
    return SettingsError(f"{path} {problem}", remedy="See `schedule` in docs/how-to/runs.md", path=str(path))
