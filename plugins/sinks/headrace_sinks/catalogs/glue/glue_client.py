"""Client of the Glue Data Catalog, with batched requests and translated errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace_aws.clients import error_code, explain_error, make_client
from headrace_aws.identity import Identity
from headrace_sinks.catalogs.metastore_catalog import LostRaceError
from headrace_sinks.catalogs.metastore_tables import Input

#: Error codes of a concurrent change: the caller reads the table again and starts over.
_MISSING, _EXISTS, _CHANGED = "EntityNotFoundException", "AlreadyExistsException", "ConcurrentModificationException"
#: Most partitions in one request.
_MAX_PUT, _MAX_DELETED = 100, 25


class GlueClient:
    """Glue catalog of this account, or of the account ``catalog_id``."""

    rejects_outdated = True

    def __init__(self, identity: Identity, *, endpoint: str | None, catalog_id: str | None) -> None:
        """Create the client. ConfigError without boto3 or a region, and for an unknown profile."""
        self._client = make_client("glue", identity.region, identity.open_session("glue"), endpoint=endpoint)
        self._catalog = {"CatalogId": catalog_id} if catalog_id else {}

    def input_members(self, shape: str) -> Collection[str]:
        members: Mapping[str, Any] = self._client.meta.service_model.shape_for(shape).members
        return members.keys()

    def count_databases(self) -> int:
        return len(self._call("get_databases", "its databases", MaxResults=100)["DatabaseList"])

    def has_database(self, database: str) -> bool:
        try:
            self._call("get_database", f"database {database}", Name=database)
        except LostRaceError:
            return False
        return True

    def create_database(self, database: str) -> None:
        try:
            self._call("create_database", f"database {database}", DatabaseInput={"Name": database})
        except LostRaceError:  # another writer created it
            return

    def get_table(self, database: str, name: str) -> Input | None:
        try:
            table: Input = self._call("get_table", f"table {database}.{name}", DatabaseName=database, Name=name)[
                "Table"
            ]
        except LostRaceError:
            return None
        return table

    def create_table(self, database: str, table: Input) -> None:
        self._call("create_table", f"table {database}.{table['Name']}", DatabaseName=database, TableInput=table)

    def update_table(self, database: str, table: Input, version: str | None) -> None:
        """Replace a table. LostRaceError if ``version`` is no longer the newest."""
        based_on = {"VersionId": version} if version else {}
        what = f"table {database}.{table['Name']}"
        self._call("update_table", what, DatabaseName=database, TableInput=table, **based_on)

    def list_partitions(self, database: str, name: str) -> dict[tuple[str, ...], Input]:
        found, page = dict[tuple[str, ...], Input](), dict[str, str]()
        while True:
            response = self._call_table("get_partitions", database, name, **page)
            found |= {tuple(partition["Values"]): partition for partition in response["Partitions"]}
            if not response.get("NextToken"):
                return found
            page = {"NextToken": response["NextToken"]}

    def create_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        for some in _cut(partitions, _MAX_PUT):
            response = self._call_table("batch_create_partition", database, name, PartitionInputList=some)
            self._raise_first("batch_create_partition", f"table {database}.{name}", response)

    def update_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        entries = [{"PartitionValueList": one["Values"], "PartitionInput": one} for one in partitions]
        for some in _cut(entries, _MAX_PUT):
            response = self._call_table("batch_update_partition", database, name, Entries=some)
            self._raise_first("batch_update_partition", f"table {database}.{name}", response)

    def delete_partitions(self, database: str, name: str, partitions: Sequence[tuple[str, ...]]) -> None:
        values = [{"Values": list(one)} for one in partitions]
        for some in _cut(values, _MAX_DELETED):
            response = self._call_table("batch_delete_partition", database, name, PartitionsToDelete=some)
            self._raise_first("batch_delete_partition", f"table {database}.{name}", response)

    def _call_table(self, operation: str, database: str, name: str, **parameters: Any) -> dict[str, Any]:
        return self._call(operation, f"table {database}.{name}", DatabaseName=database, TableName=name, **parameters)

    def _call(self, operation: str, what: str, **parameters: Any) -> dict[str, Any]:
        try:
            response: dict[str, Any] = getattr(self._client, operation)(**self._catalog, **parameters)
        except Exception as error:
            raise _translate(error, operation, what) from error
        return response

    def _raise_first(self, operation: str, what: str, response: Mapping[str, Any]) -> None:
        """Raise the first error in the response of a batch request."""
        for failure in response.get("Errors", ()):
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
