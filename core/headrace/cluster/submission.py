"""Submission of a package: a spark-submit script, and job definitions for EMR Serverless and Kubernetes' Spark operator."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from headrace.cluster import main as entry

ARCHIVE, MAIN, JARS = f"{entry.ENVIRONMENT}.zip", "main.py", "jars"
_SCRIPT = """\
#!/bin/sh
# Made by `headrace package`: Spark {spark}, {python}, {platform}. Its arguments are those of `headrace run`.
# AT: a copy of this folder that the cluster can read.
here=${{AT:-{at}}} || exit
exec spark-submit \\
  --master "${{MASTER:?is the cluster: spark://HOST:7077, yarn, k8s://…}}" \\
  --deploy-mode "${{DEPLOY_MODE:-client}}" \\
  {options}
"""
_BESIDE_THE_SCRIPT = '$(cd "$(dirname "$0")" && pwd)'
#: Retries of the operator, and seconds between them; users may change them.
_AGAIN = {"Retries": 3, "RetryInterval": 30}


@dataclass(frozen=True)
class Submission:
    """Settings of a package, names of its jars, and the pipeline file's own ``spark.jars``."""

    jars: Sequence[str]
    listed: str | None
    conf: Mapping[str, str]

    def list_files(self, at: str) -> dict[str, str]:
        """Return Spark setting → files of a package at ``at``."""
        jars = [*(f"{at}/{JARS}/{name}" for name in self.jars), *([self.listed] if self.listed else ())]
        files = {
            "spark.archives": f"{at}/{ARCHIVE}#{entry.ENVIRONMENT}",
            "spark.files": f"{at}/{entry.FILE}",
            "spark.jars": ",".join(jars),
        }
        return {setting: value for setting, value in files.items() if value}

    def format_script(self, about: Mapping[str, str], at: str | None) -> str:
        """Return the script that calls spark-submit. ``at``: where the cluster reads the folder; None: the folder of the script."""
        here = "\0"
        files = {
            setting.rpartition(".")[2]: '"$here"'.join(shlex.quote(part) if part else "" for part in value.split(here))
            for setting, value in self.list_files(here).items()
        }
        words = [
            *(f"--{option} {value}" for option, value in files.items()),
            *(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in self.conf.items()),
            f'"$here/{MAIN}" "$@"',
        ]
        place = shlex.quote(at) if at else _BESIDE_THE_SCRIPT
        return _SCRIPT.format(**about, at=place, options=" \\\n  ".join(words))

    def format_job(self, at: str, name: str) -> str:
        """Return the JSON input of EMR Serverless' ``StartJobRun``, without application and role.

        The settings are in a classification: ``sparkSubmitParameters`` is a single string, and values may contain spaces.
        """
        files = " ".join(f"--conf {setting}={value}" for setting, value in self.list_files(at).items())
        submit = {"entryPoint": f"{at}/{MAIN}", "entryPointArguments": [], "sparkSubmitParameters": files}
        defaults = {"classification": "spark-defaults", "properties": dict(self.conf)}
        job = {
            "name": name,
            "jobDriver": {"sparkSubmit": submit},
            "configurationOverrides": {"applicationConfiguration": [defaults]},
        }
        return json.dumps(job, indent=2) + "\n"

    def format_application(self, at: str, name: str, spark: str) -> str:
        """Return a ``SparkApplication`` of the Spark operator as YAML. ``spark``: the version of Spark."""
        again = {f"on{what}{how}": value for what in ("Failure", "SubmissionFailure") for how, value in _AGAIN.items()}
        spec = {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": spark,
            "pythonVersion": "3",
            "mainApplicationFile": f"{at}/{MAIN}",
            "arguments": [],
            # not `deps`: older versions of the operator have no archives there
            "sparkConf": {**self.list_files(at), **self.conf},
            "driver": {},
            "executor": {},
            "restartPolicy": {"type": "OnFailure", **again},
        }
        label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "headrace"
        application = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
        return yaml.safe_dump({**application, "metadata": {"name": label}, "spec": spec}, sort_keys=False)
