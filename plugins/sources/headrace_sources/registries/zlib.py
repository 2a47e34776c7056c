"""zlib inside the JVM: Spark has no function for it, but its plans can call any Java class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: Bytes. A megabyte of zlib can be a gigabyte, and the process out of memory: of more than this the end is missing, and
#: nothing can read it.
MOST = 100 << 20
_IN = "java.io.ByteArrayInputStream"
_INFLATE = "java.util.zip.InflaterInputStream"
_BOUNDED = "org.apache.commons.io.input.BoundedInputStream"
_READ = "org.apache.commons.io.IOUtils"  # Java 8 has no InputStream.readAllBytes


def inflated(spark: SparkSession, column: Column) -> Column:
    """What zlib made ``column`` (binary) of; null where it is null or no zlib."""
    from pyspark.sql import Column, functions as F

    jvm: Any = spark._jvm  # noqa: SLF001
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    objects = expressions.objects

    def several(*items: Any) -> Any:
        return jvm.PythonUtils.toSeq(_listed(jvm, items))

    def made(name: str, *of: Any) -> Any:
        """``new name(of)``: plain Java objects, which exist only inside the expression."""
        there = jvm.java.lang.Class.forName(name)
        kind = jvm.org.apache.spark.sql.types.ObjectType(there)
        return objects.NewInstance(there, several(*of), several(), True, kind, jvm.scala.Option.empty())

    classic = spark.version.startswith("3.")  # Spark 4 moved expressions out of its columns
    utilities = None if classic else jvm.org.apache.spark.sql.classic.ExpressionUtils

    def expression(of: Column) -> Any:
        java: Any = of._jc  # noqa: SLF001
        return java.expr() if utilities is None else utilities.expression(java)

    bytes_ = made(_IN, expression(column))
    binary = jvm.org.apache.spark.sql.types.DataType.fromDDL("binary")
    stream = made(_BOUNDED, made(_INFLATE, bytes_), expression(F.lit(MOST).cast("bigint")))
    # The method is static, and is called as if it were not: of static ones Spark makes code that does not compile when
    # they may throw an IOException, and then interprets the whole plan.
    read = objects.Invoke(made(_READ), "toByteArray", binary, several(stream), several(), True, True, True)
    tried = expressions.TryEval(read)
    return Column(jvm.org.apache.spark.sql.Column(tried) if utilities is None else utilities.column(tried))


def _listed(jvm: Any, items: tuple[Any, ...]) -> Any:
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return found
