"""Decompression of zlib data in the JVM. Spark has no function for it, so the plan calls Java classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace_sources.limits import INFLATED_RECORD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_IN = "java.io.ByteArrayInputStream"
_INFLATE = "java.util.zip.InflaterInputStream"
_BOUNDED = "org.apache.commons.io.input.BoundedInputStream"
_READ = "org.apache.commons.io.IOUtils"  # Java 8 has no InputStream.readAllBytes


def inflate(spark: SparkSession, column: Column) -> Column:
    """Return ``column`` (binary), inflated; null if it is null or not zlib."""
    from pyspark.sql import Column, functions as F

    jvm: Any = spark._jvm  # noqa: SLF001
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    objects = expressions.objects

    def to_seq(*items: Any) -> Any:
        return jvm.PythonUtils.toSeq(_to_list(jvm, items))

    def construct(name: str, *arguments: Any) -> Any:
        """Return ``new name(arguments)``: a Java object that exists only inside the expression."""
        java_class = jvm.java.lang.Class.forName(name)
        object_type = jvm.org.apache.spark.sql.types.ObjectType(java_class)
        none = jvm.scala.Option.empty()
        return objects.NewInstance(java_class, to_seq(*arguments), to_seq(), True, object_type, none)

    classic = spark.version.startswith("3.")  # Spark 4 separates expressions from columns
    utilities = None if classic else jvm.org.apache.spark.sql.classic.ExpressionUtils

    def expression(python: Column) -> Any:
        java: Any = python._jc  # noqa: SLF001
        return java.expr() if utilities is None else utilities.expression(java)

    bytes_ = construct(_IN, expression(column))
    binary = jvm.org.apache.spark.sql.types.DataType.fromDDL("binary")
    stream = construct(_BOUNDED, construct(_INFLATE, bytes_), expression(F.lit(INFLATED_RECORD_BYTES).cast("bigint")))
    # The static method is called as an instance method. Spark's code for a static one does not compile if it may throw an
    # IOException, and Spark then interprets the whole plan.
    read = objects.Invoke(construct(_READ), "toByteArray", binary, to_seq(stream), to_seq(), True, True, True)
    null_on_error = expressions.TryEval(read)
    return Column(
        jvm.org.apache.spark.sql.Column(null_on_error) if utilities is None else utilities.column(null_on_error)
    )


def _to_list(jvm: Any, items: tuple[Any, ...]) -> Any:
    java_list = jvm.java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return java_list
