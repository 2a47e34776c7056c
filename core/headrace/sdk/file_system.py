"""File systems: what a pipeline needs where one of its addresses has their scheme."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.sdk.plugin import Plugin


class FileSystem(Plugin):
    """Addresses ``SCHEME://…`` of Hadoop's, under whose scheme it is registered.

    A pipeline has it when a text of its file begins so: its ``jars``, and its ``explain``, which is asked before those of sources
    and sinks. It has no block: what there is to say about it are Hadoop's options, under ``spark:``.
    """

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        """Hadoop's options (``fs.…``) that are better than its defaults, on a Spark line ("3.5").

        Where the file, the cluster or a session that somebody else built says one, that counts.
        """
        return {}
