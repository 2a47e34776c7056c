"""headrace's sessions, cloned from the caller's session, which stays unchanged."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.spark.tuning import tune_py4j

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Java option to compile methods of more than 8,000 bytes too.
HUGE_METHODS = "-XX:-DontCompileHugeMethods"

#: The same SQL semantics on every Spark version: an invalid cast returns null, and headrace handles it.
_CONF: Mapping[str, str | None] = {
    "spark.sql.ansi.enabled": "false",
    # Without this, Spark removes the part of a plan that counts input rows if the write changes nothing.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Both repeat the expression of a join key at each reference, which grows without bound for records with many columns.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # It carries constraints of each column through every step and compares them with those of every other column.
    "spark.sql.constraintPropagation.enabled": "false",
    # Column names are part of SQL strings and may contain `${…}`.
    "spark.sql.variable.substitute": "false",
    # Spark's defaults that plans rely on. The caller's session may have other values.
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",  # options of the source `files` replace these two
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",  # "" would be null in other columns than strings
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",  # LEGACY reads the 45th of a month as a day of the next one
    "spark.sql.parquet.binaryAsString": "false",
    # Databases have dates before 1582. By default Spark refuses to write them, because Spark 2 uses another calendar.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",  # readers find the columns of files by these ids
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.sources.default": "parquet",  # dead letters and deleted keys
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.sources.useV1SourceList": None,  # the default of the Spark version
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}


class Sessions:
    """Cached clones of a session by name, because the first write of a new session takes a second or two."""

    def __init__(self, spark: SparkSession, conf: Mapping[str, str] | None = None) -> None:
        self.spark, self._conf = spark, {**_CONF, **_keep_microseconds(spark), **_limit(spark), **(conf or {})}
        self._clones: dict[str, SparkSession] = {}
        tune_py4j(spark)
        self._lock = threading.Lock()

    def of(self, name: str) -> SparkSession:
        """Return the clone with this name."""
        with self._lock:
            if name not in self._clones:
                self._clones[name] = clone(self.spark, self._conf)
            return self._clones[name]


def _keep_microseconds(spark: SparkSession) -> dict[str, str]:
    """Return the type of timestamps in Parquet files if the caller's type truncates them."""
    name = "spark.sql.parquet.outputTimestampType"
    return {name: "TIMESTAMP_MICROS"} if spark.conf.get(name) == "TIMESTAMP_MILLIS" else {}


def _limit(spark: SparkSession) -> dict[str, str]:
    """Return the limit for generated methods that is needed if HUGE_METHODS is missing.

    Without the option, Java never compiles a large method, and splitting it is faster.
    """
    context = spark.sparkContext
    roles = ["driver", *([] if str(context.master).startswith("local") else ["executor"])]
    options = [context.getConf().get(f"spark.{role}.extraJavaOptions") or "" for role in roles]
    return (
        {}
        if all(HUGE_METHODS in configured for configured in options)
        else {"spark.sql.codegen.hugeMethodLimit": "8000"}
    )


def clone(spark: SparkSession, conf: Mapping[str, str | None]) -> SparkSession:
    """Return a session with the caller's settings and catalogs and with independent settings of its own.

    ``conf``: None for the default value of a setting.
    """
    from pyspark.rdd import RDD
    from pyspark.sql import SparkSession

    to_df = getattr(RDD, "toDF", None)
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    if to_df is not None:  # PySpark binds RDD.toDF to the newest session; restore the caller's
        setattr(RDD, "toDF", to_df)  # noqa: B010 - mypy knows it as a method
    for key, value in conf.items():
        if not session.conf.isModifiable(key):  # static settings cannot change
            continue
        if value is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, value)
    return session


def find_active_session() -> SparkSession | None:
    """Return the active session of this thread, or the default one; None if there are none. Does not import PySpark."""
    pyspark = sys.modules.get("pyspark.sql")
    return pyspark.SparkSession.getActiveSession() if pyspark else None


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session was stopped. False if its JVM was lost without a stop."""
    from py4j.protocol import Py4JError

    context = spark.sparkContext._jsc  # noqa: SLF001 - PySpark has no public API for this
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return False


@cache
def name_checkpointing() -> str:
    """Return the Java package of the file managers of Spark's checkpoints, which Spark 4.1 moved."""
    import pyspark

    streaming = "org.apache.spark.sql.execution.streaming"
    is_moved = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
    return f"{streaming}.checkpointing" if is_moved else streaming


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether a session's JVM can load a class."""
    jvm = spark._jvm  # noqa: SLF001 - PySpark has no public API for the JVM
    assert jvm is not None
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:  # noqa: BLE001 - py4j wraps ClassNotFoundException
        return False
    return True


def list_class_files(spark: SparkSession, name: str) -> list[str]:
    """Return the distinct jars and folders on a session's class path that have a class, in the order in which the JVM reads them."""
    jvm: Any = spark._jvm  # noqa: SLF001
    entry = f"{name.replace('.', '/')}.class"
    found = jvm.java.util.Collections.list(
        jvm.java.lang.Thread.currentThread().getContextClassLoader().getResources(entry)
    )
    files = (str(url).removesuffix(entry).removesuffix("!/").removeprefix("jar:") for url in found)
    return list(dict.fromkeys(file.removeprefix("file:") for file in files))


def find_java_release(spark: SparkSession) -> int:
    """Return the feature release of a session's Java, such as 17."""
    jvm: Any = spark._jvm  # noqa: SLF001
    return int(str(jvm.java.lang.System.getProperty("java.specification.version")).removeprefix("1."))


def move_to_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return the same DataFrame in another session. Cached data stays cached."""
    name = "headrace_" + uuid.uuid4().hex
    frame.createGlobalTempView(name)
    try:
        return session.table(f"{global_temp(session)}.{name}")
    finally:
        # PySpark's method would also clear the cache of the view's data.
        frame.sparkSession._jsparkSession.sessionState().catalog().dropGlobalTempView(name)  # noqa: SLF001


@contextmanager
def materialize(frame: DataFrame) -> Iterator[DataFrame]:
    """Read the rows once and yield them as a new plan that does not read their source again.

    A cache is not enough: MERGE rejects reading a plan twice that counts its rows, cached or not.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001 - PySpark frees it only at garbage collection


@contextmanager
def read_once(frame: DataFrame) -> Iterator[DataFrame]:
    """Yield the rows as a new plan that is computed while it is read, and complete its observations at the end.

    This is for a library that reads its input once without a Spark SQL action. Only such an action completes observations.
    """
    from pyspark.sql import DataFrame

    session, execution = frame.sparkSession, frame._jdf.queryExecution()  # noqa: SLF001
    java: Any = session._jsparkSession  # noqa: SLF001
    rows = java.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False)  # noqa: SLF001
    yield DataFrame(rows, session)
    for listener in java.listenerManager().listListeners():
        if "Observation" in listener.getClass().getName():  # other listeners expect a real action
            listener.onSuccess("read", execution, 0)


def global_temp(session: SparkSession) -> str:
    """Return the database of global temporary views."""
    return session.conf.get("spark.sql.globalTempDatabase", "global_temp") or "global_temp"
