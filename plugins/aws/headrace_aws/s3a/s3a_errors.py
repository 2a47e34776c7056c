"""Errors of S3A's in headrace's words."""

from __future__ import annotations

import re

from headrace.sdk import ConfigError, FatalError, HeadraceError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text

#: S3A begins with a question (HEAD) whose answer has no room for a reason: then there is the status alone.
_KEYS = "look at the access key, its secret and its session token (AWS_ACCESS_KEY_ID …, fs.s3a.access.key …): they belong together"
_REGION = (
    "name the bucket's region: `spark.hadoop.fs.s3a.bucket.{bucket}.endpoint.region: {region}` and "
    "`spark.hadoop.fs.s3a.bucket.{bucket}.endpoint: s3.{region}.amazonaws.com` under `spark:`"
)
_ALLOW = "allow s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is in it"
_BUNDLE = (
    "leave out `fs.s3a.assumed.role.sts.endpoint`, which Hadoop 3.4 cannot use without it (AWS_ENDPOINT_URL_STS says the same), "
    "or add AWS's bundle to `spark.jars.packages`: software.amazon.awssdk:bundle:2.29.52"
)
#: Pattern → error, sentence, fix. In these, ``{detail}`` is what a group of the pattern found.
_KNOWN: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        r"fs\.s3a\.\S*credentials\.provider.*Class (\S+) not found",
        ConfigError,
        "there is no such class of credentials: {detail}",
        "correct fs.s3a.aws.credentials.provider; Hadoop 3.4, which Spark 4 has, wants those of AWS's SDK 2",
    ),
    (
        r"(?:NoClassDefFoundError|ClassNotFoundException): ((?:software|com)[/.]amazon\S*)",
        ConfigError,
        "what an option asks for lacks {detail}, which is not among the few jars",
        _BUNDLE,
    ),
    (
        r"NoAuthWithAWSException|NoAwsCredentialsException|Unable to load (?:AWS )?credentials from any",
        ConfigError,
        "no credentials are found",
        "give driver and executors a role, a web identity, a profile (AWS_PROFILE) or keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    ),
    (
        r"RequestTimeTooSkewed",
        FatalError,
        "the clock of this machine is more than a quarter of an hour wrong: S3 takes no request",
        "set the clock, and keep it right by NTP",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired",
        ConfigError,
        "the session token has expired",
        "log in again, or give it a role, whose credentials are renewed",
    ),
    (r"(InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken)", ConfigError, "S3 lets nobody in: {detail}", _KEYS),
    (
        r"NoSuchBucket|UnknownStoreException",
        ConfigError,
        "there is no bucket {bucket}",
        "correct the name, or make the bucket: headrace makes none",
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
        "S3 asks for fewer requests (503 SlowDown), and went on so",
        "it is tried again; write fewer and larger files (min.sync.interval), or spread them over prefixes",
    ),
    (r"AWSStatus500Exception|Status Code: 50[024]", RetriableError, "S3 has an error of its own", "it is tried again"),
    # As SDK 2 has it; of a question (HEAD) it says `null`.
    (
        r"services\.s3\.model\.\w+: (?!null)([^(\n]+)\(Service: S3, Status Code: 403",
        ConfigError,
        "S3 refuses (403): {detail}",
        f"{_KEYS}; {_ALLOW}",
    ),
    (
        r"Status Code: 403",
        ConfigError,
        "S3 refuses (403) and does not say why: the keys, the rights or the clock are wrong",
        f"{_KEYS}; {_ALLOW}; compare the clock",
    ),
    (
        r"Status Code: 400",
        ConfigError,
        "S3 refuses (400) and does not say why: the bucket is in another region, or the session token has expired",
        f"{_REGION}; or log in again",
    ),
    (
        r"bucket is null",
        ConfigError,
        "that is no name of a bucket",
        "a name of letters, digits, `-` and `.`, without `_`",
    ),
    (
        r"Unable to execute HTTP request: ([^\n]*)|UnknownHostException: (\S+)",
        RetriableError,
        "S3 is away: {detail}",
        "see that the network and `fs.s3a.endpoint` are right; nothing is lost, and it is tried again",
    ),
)
_REGION_NAME = re.compile(r"in this region: ([\w-]+)|expecting '([\w-]+)'")
_ADDRESS = re.compile(r"s3a://([^/\s:'`,]+)[^\s:'`,]*")


def explain_s3a(error: BaseException) -> HeadraceError | None:
    """What S3 refused and what to do; None for what is no error of S3A's."""
    text = full_text(error)
    if "fs.s3a" not in text and "s3a://" not in text:
        return None
    address, region = _ADDRESS.search(text), _REGION_NAME.search(text)
    known = (KnownError(*entry) for entry in _KNOWN)
    return explain_known_error(
        error,
        known,
        where=address[0] if address else None,
        bucket=address[1] if address else "BUCKET",
        region=region[1] or region[2] if region else "REGION",
    )
