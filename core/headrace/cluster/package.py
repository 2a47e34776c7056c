"""Packages: folders with which spark-submit runs a pipeline file on a cluster without headrace."""

from __future__ import annotations

import json
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from headrace.cluster import main as entry
from headrace.cluster.distributions import find_distributions, find_wanted, list_files
from headrace.cluster.session import SUBMITTERS
from headrace.cluster.submission import ARCHIVE, JARS, MAIN, Submission
from headrace.errors import ConfigError
from headrace.registry.plugin_registry import registry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import SETTINGS as IVY_SETTINGS, resolve_jars
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.session.session_builder import PACKAGES, merge_session_conf, with_huge_methods
from headrace.runtime.session.spark_support import check_supported, has_jars_of_user, spark_line, spark_version
from headrace.sdk.plugin import Plugin
from headrace.secret_values import Secret, has_secret_name, hide_credentials

SUBMIT, JOB, APPLICATION = "submit.sh", "emr-serverless.json", "spark-application.yaml"
_ON_EXECUTORS = "spark.executorEnv.PYTHONPATH"
#: Settings that must be set before the program starts.
_EARLY = ("spark.driver.", "spark.yarn.", "spark.kubernetes.", "spark.emr-serverless.")
_JARS = "spark.jars"
#: Settings that name a secret but do not contain it.
_NAMES = re.compile(r"spark\.kubernetes\.(driver|executor)\.(secretKeyRef|secrets)\.")
#: Settings that the command sets itself.
_COMMANDS_OWN = {"spark.archives", "spark.files", _ON_EXECUTORS}


@dataclass(frozen=True)
class Package:
    """Created package; ``about``: its ``python``, ``platform`` and ``spark``."""

    folder: Path
    distributions: Sequence[Distribution]
    jars: Sequence[Path]
    about: Mapping[str, str]


def make_package(
    file: Path,
    folder: Path,
    plugins: Sequence[Plugin],
    conf: Mapping[str, str],
    *,
    name: str,
    at: str | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Package:
    """Make the package of a pipeline file with these plugins and ``spark:`` settings. ``report`` gets lines about downloads.

    ``name``: the pipeline's name, under which services list its jobs. The file is copied unchanged, without the values of its references. ``at``: the address at which the cluster reads the folder; the
    package then also contains job definitions for services that run no script. ConfigError for a folder that is not empty, for a missing
    distribution, and for a setting that would come too late or reveal a secret.
    """
    _check_places(folder, at)
    version = spark_version()
    check_supported(plugins, version, has_own_jars=lambda plugin: has_jars_of_user(conf))
    options = list_submit_options(plugins, conf)
    distributions = find_distributions(find_wanted(registry(), plugins, file.read_text(encoding="utf-8")))
    coordinates, locks = list_coordinates(plugins, version), read_locks(plugins)
    jars = resolve_jars(coordinates, spark_version=version, conf=conf, locks=locks, report=report)
    about = {"python": entry.describe_python(), "platform": sysconfig.get_platform(), "spark": spark_line(version)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as half:
        made = Path(half, "package")
        (made / JARS).mkdir(parents=True)
        names = [Path(shutil.copy(jar, made / JARS)).name for jar in jars]
        _write_archive(made / ARCHIVE, distributions, about)
        shutil.copyfile(file, made / entry.FILE)
        shutil.copyfile(entry.__file__, made / MAIN)
        submission = Submission(names, conf.get(_JARS), options)
        (made / SUBMIT).write_text(submission.format_script(about, at), encoding="utf-8")
        (made / SUBMIT).chmod(0o755)
        if at:
            (made / JOB).write_text(submission.format_job(at, name), encoding="utf-8")
            application = submission.format_application(at, name, version)
            (made / APPLICATION).write_text(application, encoding="utf-8")
        made.rename(folder)
    return Package(folder, distributions, [folder / JARS / name for name in names], about)


def _check_places(folder: Path, at: str | None) -> None:
    """Raise ConfigError for a folder that is not empty, and for an address without a scheme."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "it exists and is not an empty folder",
            where=str(folder),
            fix="remove it, or choose another: --output DIR",
        )
    if at is not None and "://" not in at:
        raise ConfigError(
            "it is not an address of a file system", where=f"--at {at}", fix="add the scheme: s3://BUCKET/FOLDER"
        )


def list_submit_options(plugins: Sequence[Plugin], conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for spark-submit, many of which must be set before Python starts. None is a secret: the program sets those.

    ConfigError for a secret that the program would set too late, and for a setting that spark-submit has itself.
    """
    if own := conf.keys() & _COMMANDS_OWN:
        raise ConfigError(f"a package sets {own.pop()} itself", where="spark:", fix="leave it out")
    java = [part for part in (merge_session_conf(plugins).get(JAVA_OPTIONS), conf.get(JAVA_OPTIONS)) if part]
    for key, value in [*conf.items(), *((JAVA_OPTIONS, part) for part in java)]:
        if key.startswith(_EARLY) or key == _JARS:
            _check_early(key, value)
    # plain strings: a setting that names a secret has a secret's name
    # The package has the jars. The addresses of repositories may have a login.
    skipped = SUBMITTERS if conf.get(PACKAGES) else (*SUBMITTERS, *IVY_SETTINGS)
    options = {key: str(value) for key, value in conf.items() if key not in skipped and not _is_secret(key, value)}
    return {**options, JAVA_OPTIONS: with_huge_methods(" ".join(java)), _ON_EXECUTORS: entry.ENVIRONMENT}


def _check_early(key: str, value: str) -> None:
    """Raise ConfigError for a secret in a setting that the command sets."""
    if not _is_secret(key, value) and hide_credentials(value) == value:
        return
    fix = "set it in the cluster's spark-defaults.conf"
    if key == _JARS:  # The command sets it, and replaces the cluster's value.
        fix = "copy the jars to a folder that the cluster reads without a login in the address"
    elif isinstance(value, Secret) and not (key == JAVA_OPTIONS or has_secret_name(key)):
        fix += "; if it is not a secret, write its value without a reference"
    raise ConfigError(
        "it contains a secret, and must be set before the program starts, by a command that any user can read",
        where=f"spark: {key}",
        fix=fix,
    )


def _is_secret(key: str, value: str) -> bool:
    if _NAMES.match(key):
        return False
    return isinstance(value, Secret) or has_secret_name(value if key == JAVA_OPTIONS else key)


def _write_archive(archive: Path, distributions: Sequence[Distribution], about: Mapping[str, str]) -> None:
    # Most files are compiled modules: a higher compression level saves little.
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for one in distributions:
            for name, content in sorted(list_files(one).items()):
                file.writestr(name, content.read_bytes() if isinstance(content, Path) else content)
        file.writestr(entry.ABOUT, json.dumps(about))
