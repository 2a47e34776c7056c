"""Suppression of startup warnings of JOL, Hudi's library that measures objects."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def suppress_jol_warnings(spark: SparkSession) -> None:
    """Initialize JOL without its warnings on standard output."""
    jvm: Any = spark._jvm  # noqa: SLF001
    system = jvm.java.lang.System
    if system.getProperty("jol.skipHotspotSAAttach") is not None:
        return
    # JOL also tries to attach to the JVM as a debugger, which takes a second.
    for name in ("HotspotSAAttach", "DynamicAttach", "InstallAttach"):
        system.setProperty(f"jol.skip{name}", "true")
    out = system.out
    system.setOut(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
    try:
        with suppress(Exception):  # another version of Hudi may relocate the class elsewhere
            jvm.org.apache.hudi.org.openjdk.jol.vm.VM.current()
    finally:
        system.setOut(out)
