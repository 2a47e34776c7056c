"""Addresses ``old://BUCKET/OBJECT``: Hadoop's client is Google's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import ConfigError, FileSystem, HeadraceError
from headrace.sdk.error_text import full_text


class Old(FileSystem):
    """``old://BUCKET/OBJECT``, wherever a pipeline file has an address. It has no block."""

    name = "old"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",)
    }
    jvm_class = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        return {"fs.old.impl": self.jvm_class}

    def explain(self, error: BaseException) -> HeadraceError | None:
        if "GoogleJsonResponseException: 403" in full_text(error):
            return ConfigError("Google lets nobody in", fix="run `gcloud auth application-default login`")
        return None
