"""Reading small text files on S3 with boto3, by the options that S3A has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from headrace.sdk import ConfigError
from headrace_aws.clients import error_code, explain_error, find_region, make_client

#: Options that mean the same to boto3, without ``fs.s3a.``.
_KNOWN = {
    *("access.key", "secret.key", "session.token"),
    *("endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled"),
}
#: Options that do not change what is read.
_IGNORED = re.compile(
    r"(attempts|retry|connection|threads|max|fast\.upload|buffer|block|multipart|committer|directory|change|socket|readahead"
    r"|paging|experimental|list|select|impl|executor|multiobjectdelete|create|etag|accesspoint|vectored|bulk)\b.*"
)
#: Variables with an endpoint, which not every version of S3A reads.
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
#: Region in the name of an AWS endpoint.
_REGION = re.compile(r"\bs3[.-]([a-z]{2}-[a-z-]+-\d)\.amazonaws\.")
_BUCKET = re.compile(r"s3a://(?P<bucket>[^/]+)/*(?P<key>.*)")


class S3Folder:
    """Folder of a bucket."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._bucket, self._key = client, bucket, key.strip("/")

    def folder(self, name: str) -> S3Folder:
        """Return a folder in it."""
        return S3Folder(self._client, self._bucket, f"{self._key}/{name}")

    def names(self, *, hidden: bool = False) -> list[str]:
        """Return the sorted names of objects and folders in it. ``hidden`` includes ``.…`` and ``_…``."""
        prefix = f"{self._key}/" if self._key else ""
        names = {key[len(prefix) :].strip("/") for key in self._list_keys(prefix)}
        return sorted(name for name in names if name and (hidden or not name.startswith((".", "_"))))

    def read(self, name: str) -> str | None:
        """Return the text of an object, None when it does not exist."""
        key = f"{self._key}/{name}".lstrip("/")
        try:
            content: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except Exception as error:
            if error_code(error) == "NoSuchKey":
                return None
            raise self._explain(error, "s3:GetObject") from error
        return content.decode(errors="replace")

    def _list_keys(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2")
        try:
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"):
                yield from (item["Key"] for item in page.get("Contents", ()))
                yield from (item["Prefix"] for item in page.get("CommonPrefixes", ()))
        except Exception as error:
            raise self._explain(error, "s3:ListBucket") from error

    def _explain(self, error: Exception, action: str) -> Exception:
        if error_code(error) == "NoSuchBucket":
            fix = "correct the name, or create the bucket"
            return ConfigError(f"no such bucket: {self._bucket}", where=f"s3a://{self._bucket}/{self._key}", fix=fix)
        return explain_error(error, action, where=f"s3a://{self._bucket}/{self._key}")


def open_s3_folder(address: str, options: Mapping[str, str]) -> S3Folder | None:
    """Return the folder of an ``s3a://`` address; None when boto3 is missing or an option means nothing to it."""
    found = _BUCKET.fullmatch(address)
    if found is None or not _has_boto3():
        return None
    settings = _read_settings(options, found["bucket"])
    if not settings.get("endpoint") and any(map(os.environ.get, _ENDPOINTS)):
        return None
    if any(name not in _KNOWN and not _IGNORED.fullmatch(name) for name in settings):
        return None
    return S3Folder(_make_client(settings), found["bucket"], found["key"])


def _read_settings(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Return the options of a bucket without ``fs.s3a.``; a bucket's own take precedence."""
    general = {key.removeprefix("fs.s3a."): value for key, value in options.items() if key.startswith("fs.s3a.")}
    own = f"bucket.{bucket}."
    settings = {name: value for name, value in general.items() if not name.startswith("bucket.")}
    return settings | {name.removeprefix(own): value for name, value in general.items() if name.startswith(own)}


def _make_client(settings: Mapping[str, str]) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.session import get_session

    addressing = "path" if settings.get("path.style.access", "").lower() == "true" else "auto"
    core = get_session()
    config = Config(s3={"addressing_style": addressing}, ignore_configured_endpoint_urls=True)
    core.set_default_client_config(config)
    session = boto3.Session(
        aws_access_key_id=settings.get("access.key"),
        aws_secret_access_key=settings.get("secret.key"),
        aws_session_token=settings.get("session.token"),
        botocore_session=core,
    )
    endpoint = settings.get("endpoint")
    if endpoint and "://" not in endpoint:
        has_tls = settings.get("connection.ssl.enabled", "true").lower() == "true"
        endpoint = f"{'https' if has_tls else 'http'}://{endpoint}"
    named = _REGION.search(endpoint or "")
    region = settings.get("endpoint.region") or (named[1] if named else None) or find_region() or "us-east-1"
    return make_client("s3", region, session, endpoint=endpoint)


def _has_boto3() -> bool:
    return find_spec("boto3") is not None
