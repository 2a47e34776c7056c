"""Tests of a sink's environment: the driver's memory and the working directory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.errors import ConfigError
from headrace.sdk.changes import OFFSET, POSITION
from headrace.testing._internal.claims import applies_if
from headrace.testing.tables import Target, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PEOPLE = "id int, name string"
#: Less than the memory of a row in any Python object.
_BYTES_OF_A_ROW = 100


class EnvironmentTests:
    """Tests of memory and paths."""

    plugin_class: ClassVar[Any]
    #: Rows of a batch that must not be collected in the driver. 0 turns the test off.
    large: ClassVar[int] = 100_000

    def config(self, folder: Path) -> Mapping[str, Any]:
        """Return valid options of the plugin."""
        raise NotImplementedError("defined by the plugin's kit")

    @applies_if(lambda kit: kit.large)
    def test_large_batch_is_not_collected_in_the_driver(self, target: Target) -> None:
        from pyspark.sql import functions as F

        rows = target.frame(_PEOPLE, put(1, 1, "a")).withColumn(
            "id", F.explode(F.sequence(F.lit(1), F.lit(self.large)))
        )
        # Each row gets its own record and position.
        columns = {POSITION: F.format_string("%010d", "id"), OFFSET: F.col("id").cast("bigint")}
        rows = rows.withColumns({name: columns[name] for name in columns if name in rows.columns})
        tracemalloc.start()
        try:
            target.apply(rows)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < self.large * _BYTES_OF_A_ROW, "the sink collects the rows in the driver"
        assert target.read().count() == self.large

    def test_relative_path_is_resolved_once_or_rejected(
        self, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Java keeps its initial working directory. The relative path leads into `tmp_path` from there and from `here`.
        jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public API
        relative = Path(os.path.relpath(tmp_path / "lake", str(jvm.java.lang.System.getProperty("user.dir"))))
        here = tmp_path.joinpath("here", *map(str, range(len(relative.parts))))
        here.mkdir(parents=True)
        for folder in (tmp_path / "lake", here / relative, tmp_path / "elsewhere"):
            folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(here)
        try:
            config = self.config(relative)
            target = Target(self.plugin_class(config), session)
            target.sink.check()
        except ConfigError:
            return
        refusal = target.refusal(lambda: target.write(_PEOPLE, put(1, 1, "a")))
        if refusal is None:
            assert target.rows() == [{"id": 1, "name": "a"}]
            monkeypatch.chdir(tmp_path / "elsewhere")
            other = Target(self.plugin_class(config), session, name=target.name)
            refusal = other.refusal(lambda: _assert_row_exists(other))
        assert refusal is None or isinstance(refusal, ConfigError)


def _assert_row_exists(target: Target) -> None:
    assert target.rows() == [{"id": 1, "name": "a"}]
