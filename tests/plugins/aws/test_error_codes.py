"""Classes of AWS errors: for all codes that botocore retries, and for all errors of the operations that headrace calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import pytest
from botocore import exceptions as boto
from botocore.credentials import RefreshableCredentials
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from headrace import ConfigError, HeadraceError, RetriableError
from headrace.errors import LoginError
from headrace_aws.clients import explain_error
from headrace_aws.error_codes import is_temporary

OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "kinesis": (
        *("ListShards", "DescribeStreamSummary", "GetShardIterator", "GetRecords", "SubscribeToShard"),
        *("DescribeStreamConsumer", "RegisterStreamConsumer"),
    ),
    "glue": (
        *("GetDatabases", "GetDatabase", "CreateDatabase", "GetTable", "CreateTable", "UpdateTable", "GetPartitions"),
        *("BatchCreatePartition", "BatchUpdatePartition", "BatchDeletePartition", "GetSchemaVersion", "ListRegistries"),
    ),
    "secretsmanager": ("GetSecretValue",),
    "sqs": ("ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes"),
    "ssm": ("GetParameter",),
    "sts": ("AssumeRole", "AssumeRoleWithWebIdentity"),
    "kafka": ("GetBootstrapBrokers",),
}
TEMPORARY = {
    *("ConcurrentModificationException", "ExpiredIteratorException", "ExpiredNextTokenException"),
    *("FederationSourceRetryableException", "IDPCommunicationError", "InternalFailureException"),
    *("InternalServerError", "InternalServerErrorException", "InternalServiceError", "InternalServiceException"),
    *("KMSThrottlingException", "LimitExceededException", "OperationTimeoutException"),
    *("KMS.ThrottlingException", "KmsThrottled", "OverLimit", "RequestThrottled"),
    *("ProvisionedThroughputExceededException", "ResourceInUseException", "ResourceNotReadyException"),
    *("ResourceNumberLimitExceededException", "ServiceUnavailableException", "TooManyRequestsException"),
}


def explain(code: str, message: str = "no", status: int = 400, action: str = "ssm:GetParameter") -> HeadraceError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return explain_error(boto.ClientError(response, "Op"), action, where="AWS")


def codes_of_operations() -> Iterator[str]:
    session = botocore.session.get_session()
    for service, operations in OPERATIONS.items():
        model = session.get_service_model(service)
        shapes = [shape for name in operations for shape in model.operation_model(name).error_shapes]
        if service == "kinesis":
            shapes += model.shape_for("SubscribeToShardEventStream").members.values()
        for shape in shapes:
            if shape.name.endswith("Event"):
                continue
            yield shape.metadata.get("error", {}).get("code", shape.name)


def test_errors_of_each_operation() -> None:
    codes = set(codes_of_operations())
    assert {code for code in codes if isinstance(explain(code), RetriableError)} == codes & TEMPORARY
    assert len(codes & TEMPORARY) >= 15


@pytest.mark.parametrize(
    "code",
    [
        *ThrottledRetryableChecker._THROTTLED_ERROR_CODES,
        *TransientRetryableChecker._TRANSIENT_ERROR_CODES,
        *(
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "InternalError",
            "InternalServerException",
            "503",
            "429",
        ),
    ],
)
def test_codes_that_botocore_retries_are_temporary(code: str) -> None:
    assert is_temporary(code)
    assert isinstance(explain(code), RetriableError)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_status_of_a_proxy_is_temporary(status: int) -> None:
    assert isinstance(explain("Unknown", status=status), RetriableError)


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "ValidationException", "InvalidArgumentException", "400"])
def test_other_codes_need_a_person(code: str) -> None:
    assert type(explain(code)) is ConfigError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (boto.EndpointConnectionError(endpoint_url="http://a"), RetriableError),
        (boto.ConnectTimeoutError(endpoint_url="http://a"), RetriableError),
        (boto.ReadTimeoutError(endpoint_url="http://a"), RetriableError),
        (boto.ConnectionClosedError(endpoint_url="http://a"), RetriableError),
        (boto.ResponseStreamingError(error="cut"), RetriableError),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), RetriableError),
        (boto.MetadataRetrievalError(error_msg="none"), RetriableError),
        (TimeoutError("read"), RetriableError),
        (boto.ParamValidationError(report="bad"), ConfigError),
        (boto.InvalidRegionError(region_name="a b"), ConfigError),
        (boto.ConfigParseError(path="~/.aws/config"), ConfigError),
        (boto.NoCredentialsError(), ConfigError),
    ],
)
def test_errors_of_botocore(error: Exception, kind: type[HeadraceError]) -> None:
    assert type(explain_error(error, "ssm:GetParameter", where="AWS")) is kind


@pytest.mark.parametrize(
    ("provider", "message", "kind"),
    [
        ("container-role", "Received error when attempting to retrieve container metadata: refused", RetriableError),
        ("container-role", "Received non 200 response 503 from container metadata: busy", RetriableError),
        ("container-role", "Received non 200 response 429 from container metadata: slow", RetriableError),
        ("container-role", "Received non 200 response 403 from container metadata: no", ConfigError),
        ("custom-process", "exit code 1", ConfigError),
    ],
)
def test_credentials_of_a_container(provider: str, message: str, kind: type[HeadraceError]) -> None:
    error = boto.CredentialRetrievalError(provider=provider, error_msg=message)
    assert type(explain_error(error, "ssm:GetParameter", where="AWS")) is kind


def test_credentials_that_expired_before_their_renewal() -> None:
    end = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    keys = {"access_key": "AKIDEXAMPLE", "secret_key": "example", "token": "t", "expiry_time": end}
    credentials = RefreshableCredentials.create_from_metadata(keys, lambda: keys, "custom-process")
    with pytest.raises(RuntimeError) as caught:
        credentials.get_frozen_credentials()
    found = explain_error(caught.value, "ssm:GetParameter", where="AWS")
    assert isinstance(found, LoginError)
    assert found.what == "the credentials have expired"


def fix_of(code: str, message: str, action: str) -> Any:
    return explain(code, message, action=action).fix


@pytest.mark.parametrize(
    ("code", "message", "action"),
    [
        ("AccessDeniedException", "Access to KMS is not allowed", "secretsmanager:GetSecretValue"),
        ("DecryptionFailure", "Secrets Manager can't decrypt the secret", "secretsmanager:GetSecretValue"),
        (
            "AccessDeniedException",
            "The ciphertext refers to a customer master key that does not exist",
            "ssm:GetParameter",
        ),
        ("InvalidKeyId", "arn:aws:kms:eu-west-1:1:key/2 is disabled", "ssm:GetParameter"),
        ("KMSAccessDeniedException", "User is not authorized", "kinesis:GetRecords"),
        ("KMSDisabledException", "the key is disabled", "kinesis:GetRecords"),
        ("KMS.AccessDeniedException", "User is not authorized", "sqs:ReceiveMessage"),
        ("KmsDisabled", "the key is disabled", "sqs:ReceiveMessage"),
        ("GlueEncryptionException", "no key", "glue:GetTable"),
        (
            "AccessDeniedException",
            "User: a is not authorized to perform: kms:Decrypt on resource: b",
            "ssm:GetParameter",
        ),
    ],
)
def test_refusal_of_kms_names_the_key(code: str, message: str, action: str) -> None:
    error = explain(code, message, action=action)
    assert type(error) is ConfigError
    assert str(error.fix).startswith("allow kms:Decrypt on the KMS key to this role or user, in IAM and in the policy")


def test_permission_of_the_message_precedes_the_action_of_the_request() -> None:
    message = "User: arn:aws:sts::1:assumed-role/KMS/a is not authorized to perform: sts:TagSession on resource: b"
    assert fix_of("AccessDenied", message, "ssm:GetParameter") == "allow sts:TagSession to this role or user"
    assert fix_of("AccessDenied", "no", "ssm:GetParameter") == "allow ssm:GetParameter to this role or user"
