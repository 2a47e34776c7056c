"""The JVM's packages, classes and functions as PySpark reaches them, looked for once.

PySpark asks the JVM at each use, and for a name of one part, such as ``org``, the JVM looks through all jars for a class.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Package(JavaPackage):  # type: ignore[misc]
    """A package whose packages and classes are looked for once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        # A class that is not there is a package to py4j; it may come with a jar.
        if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and name.islower()):
            setattr(self, name, _with_cache(found))
        return found


class _Functions:
    """A class of the JVM's whose members are looked for once."""

    def __init__(self, name: str, jvm: Any) -> None:
        self._class = reduce(getattr, name.split("."), jvm)

    def __getattr__(self, member: str) -> Any:
        found = getattr(self._class, member)
        setattr(self, member, found)
        return found


def cache_jvm_lookups(spark: SparkSession) -> None:
    """It was a third of the time of making a plan.

    PySpark 3.5 asks for the classes of functions by their short names, 4.0 by their own.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    for name in ("org", "java", "py4j", "scala"):
        if name not in vars(jvm):
            setattr(jvm, name, _with_cache(getattr(jvm, name)))
    for name in ("org.apache.spark.sql.functions", "org.apache.spark.api.python.PythonUtils"):
        for asked in (name, name.rpartition(".")[2]):
            if asked not in vars(jvm):
                setattr(jvm, asked, _Functions(name, jvm))


def _with_cache(found: Any) -> Any:
    if type(found) is JavaPackage:
        found.__class__ = _Package
    return found
