"""What every plugin has: a name, an API version, a config model, and what it needs of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import HeadraceError
from headrace.sdk.config import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Raised by one when a contract changes so that plugins have to; the oldest whose plugins still run is the one before.
API_VERSION, OLDEST_API_VERSION = 1, 1


class Plugin:
    """The base of sources, formats, dialects, transforms, sinks, auth providers, catalogs and file systems.

    Nothing runs at construction.
    """

    #: The name it is registered under, as users write it.
    name: ClassVar[str]
    #: The ``API_VERSION`` the plugin was written for. Written out in every plugin, never taken from here.
    api_version: ClassVar[int]
    #: The model of the plugin's block in the pipeline file.
    Config: ClassVar[type[Config]] = Config
    #: Spark line ("3.5") → Maven coordinates. A line that is absent needs no jar.
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    #: Spark line → why the plugin cannot work there.
    refuses: ClassVar[Mapping[str, str]] = {}
    #: A JVM class of those jars, by which a session that somebody else built is checked.
    jvm_class: ClassVar[str | None] = None

    #: SQL settings of the sessions in which headrace reads and writes; the caller's session does not get them.
    sql_conf: ClassVar[Mapping[str, str]] = {}

    def __init__(self, config: Any = None, **options: Any) -> None:
        """``config``: a ``Config``, or its keys as a mapping; ``options``: the same as keyword arguments."""
        if not isinstance(config, self.Config):
            config = self.Config.model_validate({**(config or {}), **options})
        self.config: Any = config

    def parts(self) -> Sequence[Plugin]:
        """The plugins that its block names: a pipeline has them too, with their jars, settings and checks."""
        return ()

    def session_conf(self) -> dict[str, str]:
        """Spark settings that a session needs before it starts (extensions, catalogs, serializer).

        ``spark.sql.extensions`` is a list: those of all plugins are joined, as are their Java options
        (``spark.driver.extraJavaOptions``, ``spark.executor.extraJavaOptions``), which a session that somebody else built
        may lack.
        """
        return {}

    def extras(self) -> Collection[str]:
        """The extras of its distribution that its block asks for (``pip install 'headrace-acme[fast]'``): what is packed for a cluster
        has them. The one that is called like its entry point need not be named.
        """
        return ()

    def check(self, spark: SparkSession | None = None) -> None:
        """Raises ConfigError for what can be known before a stream starts. ``spark`` is there when a session is."""

    def warnings(self) -> Iterable[str]:
        """What its block says that can be run and is unwise: told by ``headrace check`` and when a run begins."""
        return ()

    def connect(self, spark: SparkSession) -> Iterable[tuple[str, str]]:
        """Tries what it talks to (``headrace check --connect``): what it tried and what it found, one after the other.

        Raises for what does not answer or lets nobody in.
        """
        return ()

    def explain(self, error: BaseException) -> HeadraceError | None:
        """The plugin's own words for an error of Spark or of a library; None when it is not the plugin's to explain."""
        return None
