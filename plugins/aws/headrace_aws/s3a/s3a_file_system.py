"""Addresses on ``s3a://``: Hadoop's client of S3 with the few jars of AWS's SDK that it needs, and Spark's writer of checkpoints there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import FileSystem, HeadraceError
from headrace_aws.s3a.s3_folder import S3Folder, open_s3_folder
from headrace_aws.s3a.s3a_errors import explain_s3a

_HADOOP = "org.apache.hadoop.fs.s3a"
#: Keys of the file first, then all places where AWS's SDK of that Hadoop looks: a profile and a web identity too.
_LOGINS = f"{_HADOOP}.TemporaryAWSCredentialsProvider,{_HADOOP}.SimpleAWSCredentialsProvider"
_DEFAULT_LOGIN = {
    "3.5": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "4.0": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
}
#: DynamoDB's, for S3A names its exceptions; STS's, for roles and web identities.
_SDK_1 = ("core", "dynamodb", "s3", "sts")
#: S3's and STS's, and what these need that Spark has not; Netty is Spark's own.
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
    """Each alone: Hadoop itself asks for a bundle of all of AWS's services."""
    return tuple(f"{group}:{artifact}:{version}:jar" for artifact in artifacts)


class S3A(FileSystem):
    """``s3a://BUCKET/KEY``."""

    name = "s3a"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": (
            *_list_jars("org.apache.hadoop", "3.3.4", "hadoop-aws"),
            *_list_jars("org.apache.spark", "3.5.7", "spark-hadoop-cloud_2.12"),
            *_list_jars("com.amazonaws", "1.12.262", *(f"aws-java-sdk-{name}" for name in _SDK_1)),
        ),
        "4.0": (
            *_list_jars("org.apache.hadoop", "3.4.1", "hadoop-aws"),
            *_list_jars("org.apache.spark", "4.0.0", "spark-hadoop-cloud_2.13"),
            *_list_jars("software.amazon.awssdk", "2.29.52", *_SDK_2),
            *_list_jars("software.amazon.eventstream", "1.0.1", "eventstream"),
            *_list_jars("org.reactivestreams", "1.0.4", "reactive-streams"),
        ),
    }
    jvm_class = f"{_HADOOP}.S3AFileSystem"

    def hadoop_options(self, spark_line: str) -> Mapping[str, str]:
        if spark_line not in _DEFAULT_LOGIN:
            return {}
        return {
            "fs.s3a.aws.credentials.provider": f"{_LOGINS},{_DEFAULT_LOGIN[spark_line]}",
            # As in Hadoop 3.4: each file that is written does not delete its folders' markers, and who does not answer is not
            # asked twenty times for each of seven tries.
            "fs.s3a.directory.marker.retention": "keep",
            "fs.s3a.attempts.maximum": "5",
            # The pauses double: ten are minutes, and the twenty of the default a day.
            "fs.s3a.retry.throttle.limit": "10",
        }

    def open_folder(self, address: str, options: Mapping[str, str]) -> S3Folder | None:
        return open_s3_folder(address, options)

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_s3a(error)
