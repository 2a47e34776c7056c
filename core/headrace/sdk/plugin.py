"""Base class of all plugins: name, API version, config model, and requirements on Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError

from headrace.config_errors import Location, as_config_error
from headrace.errors import HeadraceError
from headrace.sdk.config import Config
from headrace.sdk.findings import Checkup, Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Current plugin API version, and the oldest one that is supported: at most one version older.
API_VERSION, OLDEST_API_VERSION = 1, 1


class Plugin:
    """The base of sources, formats, dialects, transforms, sinks, auth providers, catalogs, file systems and observers.

    Construction has no side effects.
    """

    #: Name under which the plugin is registered, as users write it.
    name: ClassVar[str]
    #: The ``API_VERSION`` for which the plugin was written: a literal in each plugin, never this constant.
    api_version: ClassVar[int]
    #: Model of the plugin's block in the pipeline file.
    Config: ClassVar[type[Config]] = Config
    #: Spark line ("3.5") or patch ("3.5.7") → Maven coordinates. The nearest patch of a line applies. Empty: it needs no jars.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    #: Spark line → why the plugin does not support it.
    refuses: ClassVar[Mapping[str, str]] = {}
    #: Spark line → a warning about its use on it.
    cautions: ClassVar[Mapping[str, str]] = {}
    #: A JVM class of those jars; its presence is checked in sessions that headrace did not build.
    jvm_class: ClassVar[str | None] = None

    #: Whether ``connect`` uses its session. Otherwise ``headrace doctor`` calls it with None, before Spark starts.
    connect_needs_spark: ClassVar[bool] = True

    #: SQL settings of the sessions in which headrace reads and writes. The caller's session stays unchanged.
    sql_conf: ClassVar[Mapping[str, str]] = {}

    def __init__(self, config: Any = None, **options: Any) -> None:
        """``config``: a ``Config``, or its keys as a mapping; ``options``: the same as keyword arguments.

        ConfigError for invalid options.
        """
        if not isinstance(config, self.Config):
            try:
                config = self.Config.model_validate({**(config or {}), **options})
            except ValidationError as error:
                raise as_config_error(error, self._describe_location) from None
        self.config: Any = config

    @classmethod
    def _describe_location(cls, loc: Location) -> str:
        return ", ".join([cls.__name__, ".".join(map(str, loc))] if loc else [cls.__name__])

    def parts(self) -> Sequence[Plugin]:
        """Return the plugins that its block names: the pipeline uses their jars, settings and checks."""
        return ()

    def session_conf(self) -> dict[str, str]:
        """Return Spark settings that a session needs before it starts (extensions, catalogs, serializer).

        ``spark.sql.extensions`` and the Java options (``spark.driver.extraJavaOptions``, ``spark.executor.extraJavaOptions``) of all
        plugins are joined. A session that headrace did not build may lack the Java options.
        """
        return {}

    def extras(self) -> Collection[str]:
        """Return the extras of its distribution that its block needs (``pip install 'headrace-acme[fast]'``), for packaging.

        An extra with the name of the entry point is always included.
        """
        return ()

    def check(self, spark: SparkSession | None = None) -> None:
        """Raise ConfigError for problems that can be found before a stream starts. ``spark``: the session, if there is one."""

    def warnings(self) -> Iterable[str]:
        """Return warnings about valid but unwise options; ``headrace check`` and the start of a run show them."""
        return ()

    def notes(self) -> Iterable[str]:
        """Return effects of valid options that users may not expect; ``headrace check`` shows them."""
        return ()

    def connect(self, spark: SparkSession) -> Iterable[tuple[str, str]]:
        """Try each connection (``headrace check --connect``); yield what was tried and what was found.

        Raises when a server is unreachable or rejects the credentials.
        """
        return ()

    def diagnose(self, checkup: Checkup) -> Iterable[Finding]:
        """Return findings for ``headrace doctor`` about servers and data, beyond the errors of ``check`` and ``connect``.

        Called without a session, and with ``--spark`` with one. An error that it raises becomes a finding.
        """
        return ()

    def explain(self, error: BaseException) -> HeadraceError | None:
        """Return the plugin's explanation of an error of Spark or of a library; None for errors of other components."""
        return None
