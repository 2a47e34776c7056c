"""Base of the sinks whose tables are folders."""

from __future__ import annotations

from headrace.sdk import Dataset, Sink, Table


class FolderSink(Sink):
    """Sink whose tables are folders below its option ``path``."""

    def place(self) -> str | None:
        return str(self.config.path)

    def locate(self, table: Table) -> Dataset | None:
        return Dataset.of_folder(self.config.path, *table.parts)
