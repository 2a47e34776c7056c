"""Translation of errors of Spark, Hadoop and the JVM."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import (
    ConfigError,
    DataError,
    FatalError,
    HeadraceError,
    PluginError,
    RedactedError,
    RetriableError,
)
from headrace.registry.plugin_registry import registry
from headrace.registry.registration import OWN
from headrace.spark.error_text import causes, find_class, find_python_error, first_line, full_text, is_of_task

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.sdk.plugin import Plugin

_KNOWN_ERRORS: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        "No space left on device|Disk quota exceeded",
        FatalError,
        "no space left on the disk",
        "free some space and start again: nothing is lost",
    ),
    (
        "Permission denied|AccessDeniedException|AccessControlException|Mkdirs failed|Read-only file system",
        ConfigError,
        "permission denied",
        "give this user write permission, or use another path",
    ),
    (
        "Cannot write a schema with an empty group|EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE",
        DataError,
        "a column is a struct without fields, which no table can store",
        "exclude the topic, or remove the field in the producer of the events; no row of this batch was written",
    ),
    (
        "OutOfMemoryError|GC overhead limit",
        FatalError,
        "out of memory",
        "raise spark.driver.memory under `spark:`, or limit the batch",
    ),
)
#: Messages of Java, Thrift and HTTP clients about an unreachable server, such as a catalog or an object store.
_UNREACHABLE = (
    "Connection refused|Connection reset|Connection timed out|[Cc]onnect timed out|Read timed out|Broken pipe"
    "|TTransportException|failed to respond|No route to host"
)
_TRACEBACK_FIX = "run again with --traceback for the full error"


class SparkDiedError(FatalError):
    """Error of a run whose JVM has ended, or whose Spark was stopped."""


def spark_died() -> SparkDiedError:
    """Return the error of a run whose JVM has ended."""
    fix = "check whether the kernel killed it for lack of memory (dmesg); nothing is lost: start the run again"
    return SparkDiedError("the Java process of Spark has ended", fix=fix)


def spark_stopped() -> SparkDiedError:
    """Return the error of a run whose Spark was stopped."""
    fix = "end pipelines before Spark: query.stop(), then spark.stop(); nothing is lost: the next run repeats the batch"
    return SparkDiedError("Spark was stopped while the pipeline ran", fix=fix)


def translate(error: BaseException, plan: Plan, plugin: Plugin | None = None) -> HeadraceError:
    """Return ``error`` as a HeadraceError.

    File systems explain it first, then the plugin whose call raised it, the source, formats, dialects, transforms and sinks, then
    known messages. The write of a sink also reads the source, so it may raise errors of the source, but not errors of another sink.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    for link in causes(error):
        if isinstance(link, HeadraceError):
            return link
        # Other Py4J errors come from Java, or have a trace.
        if isinstance(link, Py4JError) and not isinstance(link, Py4JJavaError) and "Trace:" not in str(link):
            return spark_died()
    sinks = () if plugin in plan.all_sinks else plan.sinks
    for candidate in [
        *plan.file_systems,
        plugin,
        plan.source,
        plan.value_format,
        plan.key_format,
        *plan.dialects,
        *plan.transforms,
        *sinks,
    ]:
        if candidate is not None and (found := _explain(candidate, error)) is not None:
            return found
    return (
        _match_known_errors(full_text(error))
        or _blame_plugin(error, plan)
        or FatalError(_describe(error, plan), fix=_TRACEBACK_FIX)
    )


def _describe(error: BaseException, plan: Plan) -> str:
    """Return the first line of an error; of an error of a task only its class if the plan has masks, as Spark quotes values."""
    if not any(transform.hides_values for transform in plan.transforms) or not is_of_task(error):
        return first_line(error)
    return f"Spark fails with {find_class(error)}; the message is not shown, because it may have a masked value"


def _match_known_errors(text: str) -> HeadraceError | None:
    """Return the error for messages that every component may have; None without one in ``text``."""
    for pattern, kind, what, fix in _KNOWN_ERRORS:
        if line := _line_with(pattern, text):
            return kind(f"{what}: {line}", fix=fix)
    if line := _line_with(_UNREACHABLE, text):
        return RetriableError(
            f"a required server is unreachable: {line}",
            fix="check that it is running; nothing is lost, and headrace retries",
        )
    if python_error := find_python_error(text):
        return FatalError(f"a Python function that Spark called raises {python_error}", fix=_TRACEBACK_FIX)
    return None


def _explain(plugin: Plugin, error: BaseException) -> HeadraceError | None:
    """Return a plugin's explanation. A plugin that fails to explain an error must not hide the error."""
    try:
        found = plugin.explain(error)
    except Exception:  # noqa: BLE001 - the kit of the plugin's kind reports it
        return None
    return found if isinstance(found, HeadraceError) else None


def _blame_plugin(error: BaseException, plan: Plan) -> HeadraceError | None:
    """Return the error with the name of the third-party plugin that raised it; None if no such plugin did.

    A PluginError for the plugin's own code. A FatalError for an error of Spark: a restart may help.
    """
    plugins = {id(plugin): plugin for plugin in plan.plugins}
    for link in causes(error):
        frames = [frame for frame, _ in traceback.walk_tb(link.__traceback__)]
        # The frame of the engine that called the plugin has it too: it fails with a result of another type than the hook's.
        candidates = [value for frame in reversed(frames) for value in frame.f_locals.values()]
        plugin = next((plugins[id(value)] for value in candidates if id(value) in plugins), None)
        if plugin is not None:
            distribution = registry().distribution_of(plugin)
            if distribution in (None, OWN):
                return None
            kind = FatalError if type(link).__module__.startswith(("py4j", "pyspark")) else PluginError
            return kind(
                f"{plugin.name!r} of {distribution} raises {type(link).__name__}: {_describe(error, plan)}",
                fix=f"{_TRACEBACK_FIX}, and report it to the plugin's author",
            )
    return None


@contextmanager
def redacted_errors(plan: Plan) -> Iterator[None]:
    """Redact errors that leave the block. File systems explain them if they can."""
    with redact_errors(plan.redact):
        try:
            yield
        except Exception as error:
            found = next((e for system in plan.file_systems if (e := _explain(system, error))), None)
            if found is None and not isinstance(error, HeadraceError):
                found = _blame_plugin(error, plan)
            if found is None:
                raise
            raise found from error


@contextmanager
def redact_errors(redact: Callable[[str], str]) -> Iterator[None]:
    """Redact secrets in errors that leave the block."""
    try:
        yield
    except HeadraceError as error:
        error.redact(redact)
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if redact(text) == text:
            raise
        raise FatalError(redact(first_line(error))) from RedactedError(redact(text))


def _line_with(pattern: str, text: str) -> str:
    """Return the first line that matches the pattern; an empty string if no line matches."""
    found = next((line for line in text.splitlines() if re.search(pattern, line)), "")
    return found.strip(": \t").removeprefix("Caused by: ")
