"""The JVM's packages, classes and functions as PySpark reaches them, looked up once.

PySpark asks the JVM at each use, and for a name of one part, such as ``org``, the JVM looks through all jars for a class.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Classes that PySpark asks for as they are written here. For a short name the JVM looks through all jars, once per imported
#: package; for the session's, in Spark 4 with its package, it is asked in each batch.
_CLASSES = (
    *("SparkSession", "SparkSession$", "Column", "PythonRDD", "SerDeUtil", "SimplePythonFunction"),
    *("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.classic.SparkSession$"),
)


class _Package(JavaPackage):  # type: ignore[misc]
    """A package of the JVM's that keeps the packages and classes it was asked for."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        # A class that is not there is a package to py4j; it may come with a jar.
        if isinstance(member, JavaClass) or (isinstance(member, JavaPackage) and name.islower()):
            setattr(self, name, _with_cache(member))
        return member


class _Functions:
    """A class of the JVM's that keeps the static functions it was asked for."""

    def __init__(self, name: str, jvm: Any) -> None:
        self._class = reduce(getattr, name.split("."), jvm)

    def __getattr__(self, member: str) -> Any:
        function = getattr(self._class, member)
        setattr(self, member, function)
        return function


def cache_jvm_lookups(spark: SparkSession) -> None:
    """Makes a session's ``_jvm`` look each package, class and function up once: a third of the time of making a plan.

    PySpark 3.5 asks for the classes of functions by their short names, 4.0 by their own.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    for name in ("org", "java", "py4j", "scala"):
        if name not in vars(jvm):
            setattr(jvm, name, _with_cache(getattr(jvm, name)))
    for name in ("org.apache.spark.sql.functions", "org.apache.spark.api.python.PythonUtils"):
        for python_name in (name, name.rpartition(".")[2]):
            if python_name not in vars(jvm):
                setattr(jvm, python_name, _Functions(name, jvm))
    for name in _CLASSES:
        # What this Spark calls otherwise is a package to py4j.
        if name not in vars(jvm) and isinstance(member := getattr(jvm, name), JavaClass):
            setattr(jvm, name, member)


def _with_cache(member: Any) -> Any:
    """A package as one that looks its members up once; a class as it is."""
    if type(member) is JavaPackage:
        member.__class__ = _Package
    return member
