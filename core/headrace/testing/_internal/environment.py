"""What a sink makes of where it runs: the memory of its process, and the folder that is the current one."""

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
#: Fewer than any way to keep a row as an object of Python's takes.
_BYTES_OF_A_ROW = 100


class EnvironmentTests:
    """Memory and folders."""

    plugin_class: ClassVar[Any]
    #: How many rows a batch has that this process shall not hold. 0: it is not asked.
    large: ClassVar[int] = 100_000

    def config(self, folder: Path) -> Mapping[str, Any]:
        raise NotImplementedError("it is the plugin's author's")

    @applies_if(lambda kit: kit.large)
    def test_the_rows_of_a_large_batch_do_not_come_into_this_process(self, target: Target) -> None:
        from pyspark.sql import functions as F

        rows = target.frame(_PEOPLE, put(1, 1, "a")).withColumn(
            "id", F.explode(F.sequence(F.lit(1), F.lit(self.large)))
        )
        # A record for each, and a place in the order.
        places = {POSITION: F.format_string("%010d", "id"), OFFSET: F.col("id").cast("bigint")}
        rows = rows.withColumns({name: places[name] for name in places if name in rows.columns})
        tracemalloc.start()
        try:
            target.apply(rows)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < self.large * _BYTES_OF_A_ROW, "it takes the rows into its own memory"
        assert target.read().count() == self.large

    def test_a_relative_address_is_one_place(
        self, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Java keeps the folder in which it was started. From there the path leads into `tmp_path`, and from `here` too.
        jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no way to ask
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
            refusal = other.refusal(lambda: _assert_there(other))
        assert refusal is None or isinstance(refusal, ConfigError)


def _assert_there(target: Target) -> None:
    assert target.rows() == [{"id": 1, "name": "a"}]
