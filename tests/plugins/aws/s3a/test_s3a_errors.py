"""Classes of S3A errors: which of them are failed authentications."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigError, HeadraceError, LoginError, RetriableError
from headrace_aws.s3a.s3a_errors import explain_s3a

SDK_1 = "org.apache.hadoop.fs.s3a.AWSBadRequestException: getFileStatus on s3a://lake/x: com.amazonaws.services.s3.model.AmazonS3Exception: "
SDK_2 = "java.nio.file.AccessDeniedException: s3a://lake/x: software.amazon.awssdk.services.s3.model.S3Exception: "


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        (
            f"{SDK_1}The provided token has expired. (Service: Amazon S3; Status Code: 400; Error Code: ExpiredToken; …)",
            LoginError,
            "the session token has expired",
        ),
        (
            f"{SDK_2}The provided token has expired. (Service: S3, Status Code: 400, Request ID: 1)",
            LoginError,
            "the session token has expired",
        ),
        (
            f"{SDK_1}The AWS Access Key Id … (Service: Amazon S3; Status Code: 403; Error Code: InvalidAccessKeyId; …)",
            LoginError,
            "S3 rejected the credentials: InvalidAccessKeyId",
        ),
        (
            f"{SDK_2}The AWS Access Key Id you provided does not exist in our records. (Service: S3, Status Code: 403, …)",
            LoginError,
            "S3 rejected the credentials: The AWS Access Key Id you provided does not exist in our records",
        ),
        (f"{SDK_1}Forbidden (Service: Amazon S3; Status Code: 403; Error Code: 403 Forbidden; …)", LoginError, "(403)"),
        (f"{SDK_2}null (Service: S3, Status Code: 403, Request ID: 1)", LoginError, "S3 denied the request (403)"),
        (
            f"{SDK_1}Bad Request (Service: Amazon S3; Status Code: 400; Error Code: 400 Bad Request)",
            LoginError,
            "(400)",
        ),
        (
            f"{SDK_1}You may not (Service: Amazon S3; Status Code: 403; Error Code: AccessDenied; …)",
            ConfigError,
            "access denied: You may not",
        ),
        (
            f"{SDK_2}You may not (Service: S3, Status Code: 403, Request ID: 1)",
            ConfigError,
            "S3 denied the request (403): You may not",
        ),
        (f"{SDK_1}Slow (Service: Amazon S3; Status Code: 503; Error Code: SlowDown; …)", RetriableError, "throttling"),
    ],
)
def test_rejected_keys_are_a_failed_authentication(text: str, kind: type[HeadraceError], what: str) -> None:
    error = explain_s3a(OSError(text))
    assert type(error) is kind
    assert what in str(error)
    assert "s3a://lake/x" in str(error)
