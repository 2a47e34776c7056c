"""Translation of S3A errors."""

from __future__ import annotations

import re

from headrace.sdk import ConfigError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text

#: S3A starts with a HEAD request. Its response has no body, so an error has only a status: keys that expired or were rotated during a
#: run give a bare 400 or 403. Both count as a failed authentication, because otherwise no new keys would be tried.
_KEYS = "check that the access key, its secret and its session token (AWS_ACCESS_KEY_ID …, fs.s3a.access.key …) belong together"
_REGION = (
    "set the bucket's region: `spark.hadoop.fs.s3a.bucket.{bucket}.endpoint.region: {region}` and "
    "`spark.hadoop.fs.s3a.bucket.{bucket}.endpoint: s3.{region}.amazonaws.com` under `spark:`"
)
_ALLOW = "allow s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on its objects"
_BUNDLE = (
    "remove `fs.s3a.assumed.role.sts.endpoint` (AWS_ENDPOINT_URL_STS does the same), or add the AWS bundle, which Hadoop 3.4 "
    "requires for it, to `spark.jars.packages`: software.amazon.awssdk:bundle:2.29.52"
)
#: Most bytes of a key in S3.
_LONGEST_KEY = 1024
_LONG_KEY = (
    "shorten the target of the table, the values of its partition columns, or the folder of the sink; a key has at most "
    f"{_LONGEST_KEY:,} bytes in UTF-8"
)
_BARE_400 = (
    "S3 rejected the request (400) without a reason: the bucket is in another region, the session token has expired, or the "
    f"key is longer than {_LONGEST_KEY:,} bytes"
)
#: Pattern, error class, message, fix. ``{detail}`` is the match of the pattern's group.
_KNOWN: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        r"fs\.s3a\.\S*credentials\.provider.*Class (\S+) not found",
        ConfigError,
        "unknown class of a credentials provider: {detail}",
        "correct fs.s3a.aws.credentials.provider; Hadoop 3.4 in Spark 4 requires classes of the AWS SDK 2",
    ),
    (
        r"(?:NoClassDefFoundError|ClassNotFoundException): ((?:software|com)[/.]amazon\S*)",
        ConfigError,
        "an option requires {detail}, which is not in the jars",
        _BUNDLE,
    ),
    (
        r"NoAuthWithAWSException|NoAwsCredentialsException|Unable to load (?:AWS )?credentials from any",
        ConfigError,
        "no AWS credentials found",
        "give the driver and the executors a role, a web identity, a profile (AWS_PROFILE) or keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    ),
    (
        r"RequestTimeTooSkewed",
        FatalError,
        "the clock of this machine is wrong by more than 15 minutes, so S3 rejects all requests",
        "set the clock and synchronize it by NTP",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired|provided token has expired",
        LoginError,
        "the session token has expired",
        "log in again, or use a role, whose credentials are renewed",
    ),
    (
        r"(InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken)",
        LoginError,
        "S3 rejected the credentials: {detail}",
        _KEYS,
    ),
    (
        r"NoSuchBucket|UnknownStoreException",
        ConfigError,
        "no such bucket: {bucket}",
        "correct the name, or create the bucket; headrace creates none",
    ),
    (
        "AWSRedirectException|PermanentRedirect|AuthorizationHeaderMalformed",
        ConfigError,
        "the bucket is in another region",
        _REGION,
    ),
    (r"AmazonS3Exception: ([^(\n]*)\([^)]*Error Code: AccessDenied", ConfigError, "access denied: {detail}", _ALLOW),
    (
        r"SlowDown|AWSServiceThrottledException|Status Code: 503",
        RetriableError,
        "S3 keeps throttling requests (503 SlowDown)",
        "the batch is retried; write fewer and larger files (min.sync.interval), or spread them over prefixes",
    ),
    (
        r"AWSStatus500Exception|Status Code: 50[024]",
        RetriableError,
        "S3 reported an internal error",
        "the batch is retried",
    ),
    # Format of SDK 2, which has no code of the error; the message of a HEAD request is `null`.
    (
        r"(The AWS Access Key Id you provided[^(\n]*|The request signature we calculated[^(\n]*|The provided token is[^(\n]*)",
        LoginError,
        "S3 rejected the credentials: {detail}",
        _KEYS,
    ),
    (
        r"services\.s3\.model\.\w+: (?!null)([^(\n]+)\(Service: S3, Status Code: 403",
        ConfigError,
        "S3 denied the request (403): {detail}",
        f"{_KEYS}; {_ALLOW}",
    ),
    (
        r"Status Code: 403",
        LoginError,
        "S3 denied the request (403) without a reason: the keys, the permissions or the clock are wrong",
        f"{_KEYS}; {_ALLOW}; compare the clock",
    ),
    (
        r"Status Code: 400",
        LoginError,
        _BARE_400,
        f"{_REGION}; or log in again; or shorten the key",
    ),
    (
        r"bucket is null",
        ConfigError,
        "invalid bucket name",
        "use a name of letters, digits, `-` and `.`, without `_`",
    ),
    (
        r"Unable to execute HTTP request: ([^\n]*)|UnknownHostException: (\S+)",
        RetriableError,
        "S3 is unreachable: {detail}",
        "check the network and `fs.s3a.endpoint`; nothing is lost, and the batch is retried",
    ),
)
_REGION_NAME = re.compile(r"in this region: ([\w-]+)|expecting '([\w-]+)'")
#: Key before the error of the AWS SDK. It may contain spaces, commas and colons.
_KEY = re.compile(r"s3a://[^/\s]+/([^\n]+?): (?:com\.amazonaws|software\.amazon|org\.apache)\.")
_KEY_TOO_LONG = re.compile(r"KeyTooLong|Status Code: 400")
_ADDRESS = re.compile(r"s3a://([^/\s:'`,]+)[^\s:'`,]*")


def explain_s3a(error: BaseException) -> HeadraceError | None:
    """Return the translated error with a fix; None for an error that is not from S3A."""
    text = full_text(error)
    if "fs.s3a" not in text and "s3a://" not in text:
        return None
    if long_key := _explain_long_key(text):
        return long_key
    address, region = _ADDRESS.search(text), _REGION_NAME.search(text)
    known = (KnownError(*entry) for entry in _KNOWN)
    return explain_known_error(
        error,
        known,
        where=address[0] if address else None,
        bucket=address[1] if address else "BUCKET",
        region=region[1] or region[2] if region else "REGION",
    )


def _explain_long_key(text: str) -> ConfigError | None:
    """Return the error for a key that S3 rejects for its length. The response to a HEAD request is a 400 without a reason."""
    found = _KEY.search(text)
    if found is None or not _KEY_TOO_LONG.search(text):
        return None
    size = len(found[1].encode())
    if size <= _LONGEST_KEY:
        return None
    where = f"{found[0][:120]}…"
    return ConfigError(f"the key has {size:,} bytes, and S3 accepts {_LONGEST_KEY:,}", where=where, fix=_LONG_KEY)
