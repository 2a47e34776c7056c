"""File system ``s3a://``: Hadoop's S3 client with the required modules of the AWS SDK, and Spark's checkpoint committer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import FileSystem, HeadraceError
from headrace_aws.s3a.s3_folder import S3Folder, open_s3_folder
from headrace_aws.s3a.s3a_errors import explain_s3a

_HADOOP = "org.apache.hadoop.fs.s3a"
#: Keys of the pipeline file first, then the default chain of the AWS SDK, which includes profiles and web identities.
_LOGINS = f"{_HADOOP}.TemporaryAWSCredentialsProvider,{_HADOOP}.SimpleAWSCredentialsProvider"
_SDK_1_LOGIN = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
_SDK_2_LOGIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
#: DynamoDB: S3A refers to its exception classes. STS: roles and web identities.
_SDK_1 = ("core", "dynamodb", "s3", "sts")
#: S3 and STS, and their dependencies that Spark lacks. Netty is part of Spark.
_SDK_2 = [
    "annotations",
    "apache-client",
    "arns",
    "auth",
    "aws-core",
    "aws-query-protocol",
    "aws-xml-protocol",
    "checksums",
    "checksums-spi",
    "crt-core",
    "endpoints-spi",
    "http-auth",
    "http-auth-aws",
    "http-auth-aws-eventstream",
    "http-auth-spi",
    "http-client-spi",
    "identity-spi",
    "json-utils",
    "metrics-spi",
    "netty-nio-client",
    "profiles",
    "protocol-core",
    "regions",
    "retries",
    "retries-spi",
    "s3",
    "s3-transfer-manager",
    "sdk-core",
    "sts",
    "third-party-jackson-core",
    "utils",
]


def _list_jars(group: str, version: str, *artifacts: str) -> tuple[str, ...]:
    """Return coordinates without dependencies, because Hadoop depends on a bundle of all AWS services."""
    return tuple(f"{group}:{artifact}:{version}:jar" for artifact in artifacts)


def _list_sdk_2_jars(hadoop: str, spark: str) -> tuple[str, ...]:
    return (
        *_list_jars("org.apache.hadoop", hadoop, "hadoop-aws"),
        *_list_jars("org.apache.spark", spark, "spark-hadoop-cloud_2.13"),
        *_list_jars("software.amazon.awssdk", "2.29.52", *_SDK_2),
        *_list_jars("software.amazon.eventstream", "1.0.1", "eventstream"),
        *_list_jars("org.reactivestreams", "1.0.4", "reactive-streams"),
    )


class S3A(FileSystem):
    """File system of ``s3a://BUCKET/KEY``."""

    name = "s3a"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": (
            *_list_jars("org.apache.hadoop", "3.3.4", "hadoop-aws"),
            *_list_jars("org.apache.spark", "3.5.7", "spark-hadoop-cloud_2.12"),
            *_list_jars("com.amazonaws", "1.12.262", *(f"aws-java-sdk-{name}" for name in _SDK_1)),
        ),
        "4.0": _list_sdk_2_jars("3.4.1", "4.0.0"),
        "4.1": _list_sdk_2_jars("3.4.2", "4.1.1"),
    }
    jvm_class = f"{_HADOOP}.S3AFileSystem"

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        default = _SDK_1_LOGIN if spark_line.startswith("3.") else _SDK_2_LOGIN
        return {
            "fs.s3a.aws.credentials.provider": f"{_LOGINS},{default}",
            # Defaults of Hadoop 3.4: a write does not delete the markers of its folders, and a request has five attempts
            # instead of twenty in each of seven retries.
            "fs.s3a.directory.marker.retention": "keep",
            "fs.s3a.attempts.maximum": "5",
            # The pauses double: ten retries take minutes, the default of twenty takes a day.
            "fs.s3a.retry.throttle.limit": "10",
        }

    def open_folder(self, address: str, options: Mapping[str, str]) -> S3Folder | None:
        return open_s3_folder(address, options)

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_s3a(error)
