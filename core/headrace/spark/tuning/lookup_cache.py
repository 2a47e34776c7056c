"""Cache of the JVM packages, classes and functions that PySpark looks up.

PySpark queries the JVM at each use. For a name without a dot, such as ``org``, the JVM searches all jars for a class.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Classes that PySpark looks up by these names. For a short name the JVM searches all jars once per imported package. The class of
#: the session, which has a package in Spark 4, is looked up in each batch.
_CLASSES = (
    *("SparkSession", "SparkSession$", "Column", "PythonRDD", "SerDeUtil", "SimplePythonFunction"),
    *("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.classic.SparkSession$"),
)


class _Package(JavaPackage):  # type: ignore[misc]
    """A JVM package that caches its packages and classes."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        # py4j returns a package for a missing class, which a later jar may add.
        if isinstance(member, JavaClass) or (isinstance(member, JavaPackage) and name.islower()):
            setattr(self, name, _with_cache(member))
        return member


class _Functions:
    """A JVM class that caches its static functions."""

    def __init__(self, name: str, jvm: Any) -> None:
        self._class = reduce(getattr, name.split("."), jvm)

    def __getattr__(self, member: str) -> Any:
        function = getattr(self._class, member)
        setattr(self, member, function)
        return function


def cache_jvm_lookups(spark: SparkSession) -> None:
    """Cache the lookups of a session's ``_jvm``, which saves a third of the time to build a plan.

    PySpark 3.5 looks up the classes of functions by their short names, 4.0 by their full names.
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
        # py4j returns a package for a name that this Spark version does not have.
        if name not in vars(jvm) and isinstance(member := getattr(jvm, name), JavaClass):
            setattr(jvm, name, member)


def _with_cache(member: Any) -> Any:
    """Return a package as a caching package, and a class unchanged."""
    if type(member) is JavaPackage:
        member.__class__ = _Package
    return member
