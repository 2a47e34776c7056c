"""Addresses ``example://BUCKET/OBJECT``, read by Google's client for Hadoop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import ConfigError, FileSystem, HeadraceError, hookimpl
from headrace.sdk.error_text import full_text


class Example(FileSystem):
    """``example://BUCKET/OBJECT`` anywhere in a pipeline file. It has no block."""

    name = "example"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",)
    }
    jvm_class = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        return {"fs.example.impl": self.jvm_class}

    def explain(self, error: BaseException) -> HeadraceError | None:
        if "GoogleJsonResponseException: 403" in full_text(error):
            return ConfigError("Google rejected the credentials", fix="run `gcloud auth application-default login`")
        return None


@hookimpl
def headrace_filesystems() -> dict[str, type[FileSystem]]:
    """Return the file systems by the scheme of their addresses."""
    return {"example": Example}
