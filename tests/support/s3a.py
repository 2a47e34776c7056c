"""S3A options of a test server for a running session; per bucket, because S3A caches the options of a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace_stack import S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Retry options with short waits.
SHORT_RETRIES = {"retry.interval": "50ms", "retry.limit": "4", "retry.throttle.limit": "4", "attempts.maximum": "2"}


def bucket_options(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the Hadoop options of one bucket."""
    return {f"fs.s3a.bucket.{bucket}.{key.removeprefix('fs.s3a.')}": value for key, value in options.items()}


def open_bucket(spark: SparkSession, s3: S3, bucket: str, **options: str) -> str:
    """Configure the session for a bucket; return its address. ``options`` have ``_`` for ``.``."""
    own = {key.replace("_", "."): value for key, value in options.items()}
    keys = {"access.key": s3.access_key, "secret.key": s3.secret_key}
    hadoop: Any = spark._jsc.hadoopConfiguration()
    for key, value in bucket_options(bucket, {**s3.hadoop_options, **SHORT_RETRIES, **keys, **own}).items():
        hadoop.set(key, value)
    return f"s3a://{bucket}"
