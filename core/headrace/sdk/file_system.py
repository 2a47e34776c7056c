"""File systems: what a pipeline needs for addresses of one scheme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.sdk.plugin import Plugin


class TextFolder(Protocol):
    """Folder of small text files that can be read without a JVM."""

    def folder(self, name: str) -> TextFolder:
        """Return a folder in it; ``name`` may have slashes."""

    def names(self, *, hidden: bool = False) -> list[str]:
        """Return the sorted names of files and folders in it; empty when it does not exist. ``hidden`` includes ``.…`` and ``_…``."""

    def read(self, name: str) -> str | None:
        """Return the text of a file, None when it does not exist."""


class FileSystem(Plugin):
    """Hadoop file system for addresses ``SCHEME://…``; it is registered under the scheme.

    A pipeline uses it when a value of its file starts with the scheme: its ``jars``, and its ``explain``, which is called before
    those of sources and sinks. It has no block: its options are Hadoop's, under ``spark:``.
    """

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        """Return Hadoop options (``fs.…``) that replace Hadoop's defaults on a Spark line ("3.5").

        Values of the pipeline file, the cluster or an existing session take precedence.
        """
        return {}

    def open_folder(self, address: str, options: Mapping[str, str]) -> TextFolder | None:
        """Return a reader of a folder that needs no JVM (``headrace status``); None when there is none for these options.

        ``options``: the pipeline's Hadoop options (``fs.…``). The caller then reads with Spark.
        """
        return None
