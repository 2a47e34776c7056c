"""Sessions of headrace's own, cloned from the caller's: what is set on them the caller never sees."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.spark.jvm_cache import cache_jvm_lookups
from headrace.spark.py4j_quickack import enable_tcp_quickack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

#: A Java option: methods of more than 8,000 bytes are compiled like others.
HUGE_METHODS = "-XX:-DontCompileHugeMethods"

#: The same SQL on every Spark line: a value that cannot be cast is null, and headrace decides what becomes of it.
_CONF = {
    "spark.sql.ansi.enabled": "false",
    # A write that turns out to change nothing would lose the part of its plan that counts what came in.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Both write out what a join's key is made from, each mention anew: of records with many columns, without end.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # What it finds out of each column is carried through every step, and compared with that of every other.
    "spark.sql.constraintPropagation.enabled": "false",
    # Names of columns are in texts of SQL, and one may have `${…}` in it.
    "spark.sql.variable.substitute": "false",
}


class Sessions:
    """One clone per name, kept: a fresh session's first write costs a second or two."""

    def __init__(self, spark: SparkSession, conf: Mapping[str, str] | None = None) -> None:
        self.spark, self._conf = spark, {**_CONF, **_limit(spark), **(conf or {})}
        self._clones: dict[str, SparkSession] = {}
        cache_jvm_lookups(spark)
        enable_tcp_quickack(spark)
        self._lock = threading.Lock()

    def of(self, name: str) -> SparkSession:
        with self._lock:
            if name not in self._clones:
                self._clones[name] = clone(self.spark, self._conf)
            return self._clones[name]


def _limit(spark: SparkSession) -> dict[str, str]:
    """Without that option, a plan whose steps are one method that Java never compiles is slower than its steps alone."""
    context = spark.sparkContext
    places = ["driver", *([] if str(context.master).startswith("local") else ["executor"])]
    options = [context.getConf().get(f"spark.{place}.extraJavaOptions") or "" for place in places]
    return {} if all(HUGE_METHODS in said for said in options) else {"spark.sql.codegen.hugeMethodLimit": "8000"}


def clone(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A session with the caller's settings and catalogs, whose own settings are its own."""
    from pyspark.rdd import RDD
    from pyspark.sql import SparkSession

    to_df = getattr(RDD, "toDF", None)
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    if to_df is not None:  # PySpark binds RDD.toDF to the newest session: give it back to the caller's
        setattr(RDD, "toDF", to_df)  # noqa: B010 - mypy knows it as a method
    for key, value in conf.items():
        if session.conf.isModifiable(key):  # others were for whoever built the session
            session.conf.set(key, value)
    return session


def is_stopped(spark: SparkSession) -> bool:
    """Whether nothing can be run in a session any more, because Spark was told to end. A JVM that is gone was not told."""
    from py4j.protocol import Py4JError

    context = spark.sparkContext._jsc  # noqa: SLF001 - PySpark has no word for it
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return False


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a session's JVM finds a class."""
    jvm = spark._jvm  # noqa: SLF001 - the only way to ask the JVM
    assert jvm is not None
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:  # noqa: BLE001 - py4j wraps ClassNotFoundException
        return False
    return True


def move_to_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same DataFrame in another session; a cached one stays cached."""
    name = "headrace_" + uuid.uuid4().hex
    frame.createGlobalTempView(name)
    try:
        return session.table(f"{global_temp(session)}.{name}")
    finally:
        # PySpark's own way would empty the cache of what the view shows.
        frame.sparkSession._jsparkSession.sessionState().catalog().dropGlobalTempView(name)  # noqa: SLF001


@contextmanager
def materialize(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows, read now and kept meanwhile, as a plan of its own: what is made of them reads what they come from no more.

    A cache would not do: MERGE refuses to read a plan twice that counts its rows, cached or not.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001 - PySpark frees it at some time


@contextmanager
def read_once(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows as a plan of its own, which makes them while it is read; and what observes them is told at the end.

    For a library that reads its input once and not by an action of Spark's SQL, which alone would tell.
    """
    from pyspark.sql import DataFrame

    session, execution = frame.sparkSession, frame._jdf.queryExecution()  # noqa: SLF001
    java: Any = session._jsparkSession  # noqa: SLF001
    rows = java.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False)  # noqa: SLF001
    yield DataFrame(rows, session)
    for listener in java.listenerManager().listListeners():
        if "Observation" in listener.getClass().getName():  # others are told of the action that it is not
            listener.onSuccess("read", execution, 0)


def global_temp(session: SparkSession) -> str:
    """The database of global temporary views."""
    return session.conf.get("spark.sql.globalTempDatabase", "global_temp") or "global_temp"
