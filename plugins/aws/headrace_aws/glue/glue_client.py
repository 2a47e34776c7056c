"""What is asked of Glue's catalog, in requests as large as it takes, and its refusals in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace_aws.clients import error_code, explain_error, make_client
from headrace_aws.glue.glue_tables import Input
from headrace_aws.identity import Identity

#: Somebody else was quicker, or undid what was there: who is told so looks again, and begins anew.
_MISSING, _EXISTS, _CHANGED = "EntityNotFoundException", "AlreadyExistsException", "ConcurrentModificationException"
#: Partitions of one request.
_MOST_PUT, _MOST_DELETED = 100, 25


class LostRaceError(Exception):
    """What Glue has is not what it was a moment ago. The cause is Glue's own error."""


class GlueClient:
    """Glue's catalog of an account: this one's, or that of ``catalog_id``."""

    def __init__(self, identity: Identity, *, endpoint: str | None, catalog_id: str | None) -> None:
        """ConfigError when there is no boto3, no region, no such profile."""
        self._client = make_client("glue", identity.region, identity.open_session("glue"), endpoint=endpoint)
        self._catalog = {"CatalogId": catalog_id} if catalog_id else {}

    def input_members(self, shape: str) -> Collection[str]:
        """The members of ``TableInput`` or ``PartitionInput``: of what Glue answers, what it takes back."""
        members: Mapping[str, Any] = self._client.meta.service_model.shape_for(shape).members
        return members.keys()

    def count_databases(self) -> int:
        """How many databases it shows to this login, of the first hundred."""
        return len(self._ask("get_databases", "its databases", MaxResults=100)["DatabaseList"])

    def has_database(self, database: str) -> bool:
        try:
            self._ask("get_database", f"database {database}", Name=database)
        except LostRaceError:
            return False
        return True

    def create_database(self, database: str) -> None:
        try:
            self._ask("create_database", f"database {database}", DatabaseInput={"Name": database})
        except LostRaceError:  # somebody else did
            return

    def get_table(self, database: str, name: str) -> Input | None:
        try:
            table: Input = self._ask("get_table", f"table {database}.{name}", DatabaseName=database, Name=name)["Table"]
        except LostRaceError:
            return None
        return table

    def create_table(self, database: str, table: Input) -> None:
        self._ask("create_table", f"table {database}.{table['Name']}", DatabaseName=database, TableInput=table)

    def update_table(self, database: str, table: Input, version: str | None) -> None:
        """LostRaceError when ``version`` is not the newest any more."""
        based_on = {"VersionId": version} if version else {}
        what = f"table {database}.{table['Name']}"
        self._ask("update_table", what, DatabaseName=database, TableInput=table, **based_on)

    def list_partitions(self, database: str, name: str) -> dict[tuple[str, ...], Input]:
        """Glue's partitions of a table by their values."""
        found, page = dict[tuple[str, ...], Input](), dict[str, str]()
        while True:
            answer = self._ask_table("get_partitions", database, name, **page)
            found |= {tuple(partition["Values"]): partition for partition in answer["Partitions"]}
            if not answer.get("NextToken"):
                return found
            page = {"NextToken": answer["NextToken"]}

    def create_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        for some in _cut(partitions, _MOST_PUT):
            answer = self._ask_table("batch_create_partition", database, name, PartitionInputList=some)
            self._raise_first("batch_create_partition", f"table {database}.{name}", answer)

    def update_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        entries = [{"PartitionValueList": one["Values"], "PartitionInput": one} for one in partitions]
        for some in _cut(entries, _MOST_PUT):
            answer = self._ask_table("batch_update_partition", database, name, Entries=some)
            self._raise_first("batch_update_partition", f"table {database}.{name}", answer)

    def delete_partitions(self, database: str, name: str, partitions: Sequence[tuple[str, ...]]) -> None:
        values = [{"Values": list(one)} for one in partitions]
        for some in _cut(values, _MOST_DELETED):
            answer = self._ask_table("batch_delete_partition", database, name, PartitionsToDelete=some)
            self._raise_first("batch_delete_partition", f"table {database}.{name}", answer)

    def _ask_table(self, operation: str, database: str, name: str, **parameters: Any) -> dict[str, Any]:
        return self._ask(operation, f"table {database}.{name}", DatabaseName=database, TableName=name, **parameters)

    def _ask(self, operation: str, what: str, **parameters: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**self._catalog, **parameters)
        except Exception as error:
            raise _translate(error, operation, what) from error
        return answer

    def _raise_first(self, operation: str, what: str, answer: Mapping[str, Any]) -> None:
        """Raises what a part of a batch was refused for."""
        for failure in answer.get("Errors", ()):
            detail = failure.get("ErrorDetail") or failure.get("PartitionError", {})
            words = {"Code": detail.get("ErrorCode", ""), "Message": detail.get("ErrorMessage", "")}
            error = self._client.exceptions.ClientError({"Error": words}, operation)
            raise _translate(error, operation, what) from error


def _translate(error: Exception, operation: str, what: str) -> Exception:
    if error_code(error) in (_MISSING, _EXISTS, _CHANGED):
        return LostRaceError(str(error))
    action = "glue:" + "".join(word.capitalize() for word in operation.split("_"))
    return explain_error(error, action, where=f"AWS Glue, {what}")


def _cut(items: Sequence[Any], length: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]
