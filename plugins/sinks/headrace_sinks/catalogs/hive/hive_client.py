"""Client of a Hive metastore: the Java client in Spark's jars, with translated errors."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError
from headrace_sinks.catalogs.hive.hive_errors import translate
from headrace_sinks.catalogs.metastore_catalog import LostRaceError
from headrace_sinks.catalogs.metastore_tables import Input

if TYPE_CHECKING:
    from pyspark import SparkContext

URIS = "hive.metastore.uris"
_CONF_CLASS = "org.apache.hadoop.hive.conf.HiveConf"
_MEMBERS = {
    "TableInput": ("Name", "TableType", "PartitionKeys", "Parameters", "StorageDescriptor"),
    "PartitionInput": ("Values", "StorageDescriptor"),
}


class HiveClient:
    """Connection to a metastore. Use it in one thread.

    Entries that it has read are changed in place, so fields without a counterpart in Glue stay.
    """

    #: Hive compares versions only since 2.3.10 and 4.0, and only those that writers number.
    rejects_outdated = False

    def __init__(self, context: SparkContext, settings: Mapping[str, str]) -> None:
        """Connect. ``settings``: properties of Hive, which override the session's and those of hive-site.xml."""
        jvm: Any = context._jvm  # noqa: SLF001
        self._jvm, self._hive = jvm, jvm.org.apache.hadoop.hive.metastore
        conf = _make_conf(context, settings)
        with self._translate("connect to it"):
            self._client = self._hive.HiveMetaStoreClient(conf)
        #: Name of a table, or the values of a partition → the entry that was read.
        self._read: dict[str | tuple[str, ...], Any] = {}
        self._columns: dict[str, Any] = {}

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):  # The server may have closed it.
            self._client.close()

    def input_members(self, shape: str) -> Collection[str]:
        return _MEMBERS[shape]

    def count_databases(self) -> int:
        with self._translate("list its databases"):
            return min(len(self._client.getAllDatabases()), 100)

    def has_database(self, database: str) -> bool:
        try:
            with self._translate(f"read the database {database}"):
                self._client.getDatabase(database)
        except LostRaceError:
            return False
        return True

    def create_database(self, database: str) -> None:
        entry = self._hive.api.Database()
        entry.setName(database)
        entry.setParameters(self._jvm.java.util.HashMap())
        # Another writer may have created it.
        with suppress(LostRaceError), self._translate(f"create the database {database}"):
            self._client.createDatabase(entry)

    def get_table(self, database: str, name: str) -> Input | None:
        try:
            with self._translate(f"read the table {database}.{name}"):
                found = self._client.getTable(database, name)
        except LostRaceError:
            return None
        self._read[name] = found
        fields = self._to_json(found)
        return {
            "Name": name,
            "TableType": fields["tableType"],
            "PartitionKeys": _read_columns(fields["partitionKeys"]),
            "Parameters": fields["parameters"],
            "StorageDescriptor": _read_descriptor(fields["sd"]),
        }

    def create_table(self, database: str, table: Input) -> None:
        entry = self._hive.api.Table()
        entry.setDbName(database)
        entry.setTableName(table["Name"])
        entry.setTableType(table["TableType"])
        entry.setPartitionKeys(self._make_columns(table["PartitionKeys"]))
        entry.setParameters(self._to_map(table["Parameters"]))
        entry.setSd(self._fill(self._new_descriptor(), table["StorageDescriptor"]))
        entry.setOwner(self._jvm.java.lang.System.getProperty("user.name"))
        with self._translate(f"create the table {database}.{table['Name']}"):
            self._client.createTable(entry)

    def update_table(self, database: str, table: Input, version: str | None) -> None:
        entry = self._read[table["Name"]]
        entry.setParameters(self._to_map(table["Parameters"]))
        self._fill(entry.getSd(), table["StorageDescriptor"])
        with self._translate(f"change the table {database}.{table['Name']}"):
            self._client.alter_table(database, table["Name"], entry)

    def list_partitions(self, database: str, name: str) -> dict[tuple[str, ...], Input]:
        with self._translate(f"list the partitions of {database}.{name}"):
            found = list(self._client.listPartitions(database, name, -1))
        partitions = dict[tuple[str, ...], Input]()
        for entry in found:
            fields = self._to_json(entry)
            values = tuple(fields["values"])
            self._read[values] = entry
            partitions[values] = {"Values": list(values), "StorageDescriptor": _read_descriptor(fields["sd"])}
        return partitions

    def create_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        entries = self._jvm.java.util.ArrayList()
        for partition in partitions:
            entry = self._hive.api.Partition()
            entry.setDbName(database)
            entry.setTableName(name)
            entry.setValues(self._to_list(partition["Values"]))
            entry.setParameters(self._jvm.java.util.HashMap())
            entry.setSd(self._fill(self._new_descriptor(), partition["StorageDescriptor"]))
            entries.add(entry)
        if partitions:
            with self._translate(f"add partitions to {database}.{name}"):
                self._client.add_partitions(entries)

    def update_partitions(self, database: str, name: str, partitions: Sequence[Input]) -> None:
        entries = self._jvm.java.util.ArrayList()
        for partition in partitions:
            entry = self._read[tuple(partition["Values"])]
            self._fill(entry.getSd(), partition["StorageDescriptor"])
            entries.add(entry)
        if partitions:
            with self._translate(f"change partitions of {database}.{name}"):
                self._client.alter_partitions(database, name, entries)

    def delete_partitions(self, database: str, name: str, partitions: Sequence[tuple[str, ...]]) -> None:
        for values in partitions:
            with self._translate(f"remove a partition of {database}.{name}"):
                self._client.dropPartition(database, name, self._to_list(values), False)  # False keeps the files

    @contextmanager
    def _translate(self, action: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise translate(error, action) from error

    def _new_descriptor(self) -> Any:
        descriptor = self._hive.api.StorageDescriptor()
        descriptor.setSerdeInfo(self._hive.api.SerDeInfo())
        descriptor.setParameters(self._jvm.java.util.HashMap())
        descriptor.setNumBuckets(-1)
        return descriptor

    def _fill(self, descriptor: Any, fields: Input) -> Any:
        """Set the fields of a StorageDescriptor, and return it."""
        descriptor.setCols(self._make_columns(fields["Columns"]))
        descriptor.setLocation(fields["Location"])
        descriptor.setInputFormat(fields["InputFormat"])
        descriptor.setOutputFormat(fields["OutputFormat"])
        serde = descriptor.getSerdeInfo()
        serde.setSerializationLib(fields["SerdeInfo"]["SerializationLibrary"])
        serde.setParameters(self._to_map(fields["SerdeInfo"]["Parameters"]))
        return descriptor

    def _make_columns(self, columns: Sequence[Input]) -> Any:
        """Return the columns as Hive's objects. The partitions of a table share them."""
        key = json.dumps(columns)
        if key not in self._columns:
            entries = self._columns[key] = self._jvm.java.util.ArrayList()
            for column in columns:
                entries.add(self._hive.api.FieldSchema(column["Name"], column["Type"], column.get("Comment")))
        return self._columns[key]

    def _to_list(self, values: Sequence[str]) -> Any:
        entries = self._jvm.java.util.ArrayList()
        for value in values:
            entries.add(value)
        return entries

    def _to_map(self, values: Mapping[str, str]) -> Any:
        entries = self._jvm.java.util.HashMap()
        for key, value in values.items():
            entries.put(key, value)
        return entries

    def _to_json(self, entry: Any) -> dict[str, Any]:
        """Return a Thrift object as a dictionary: one call to the JVM for all of its fields."""
        thrift = self._jvm.org.apache.thrift
        factory = getattr(thrift.protocol, "TSimpleJSONProtocol$Factory")()
        fields: dict[str, Any] = json.loads(thrift.TSerializer(factory).toString(entry, "UTF-8"))
        return fields


def _make_conf(context: SparkContext, settings: Mapping[str, str]) -> Any:
    """Return the HiveConf of a connection. ConfigError without the address of a metastore, or without Hive's classes."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = context._jvm  # noqa: SLF001
    try:
        conf_class = jvm.java.lang.Class.forName(_CONF_CLASS)
    except Py4JJavaError as error:
        raise ConfigError(
            "this Spark has no client of the Hive metastore",
            where="catalog hive",
            fix="use a Spark that was built with Hive, such as PyPI's",
        ) from error
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf(context._jsc.hadoopConfiguration(), conf_class)  # noqa: SLF001
    for name, value in settings.items():
        conf.set(name, value)
    # Without an address, Hive's client would create a metastore of its own in the working directory.
    if not conf.get(URIS):
        raise ConfigError(
            "no metastore is configured",
            where="catalog hive",
            fix=f"set `{URIS}: thrift://HOST:9083` under `hive:`, or spark.hadoop.{URIS} under `spark:`",
        )
    return conf


def _read_columns(columns: Sequence[Mapping[str, str]]) -> list[Input]:
    return [
        {"Name": column["name"], "Type": column["type"]}
        | ({"Comment": column["comment"]} if column.get("comment") else {})
        for column in columns
    ]


def _read_descriptor(fields: Mapping[str, Any]) -> Input:
    serde = fields.get("serdeInfo", {})
    return {
        "Columns": _read_columns(fields.get("cols", ())),
        "Location": fields.get("location", ""),
        "InputFormat": fields.get("inputFormat", ""),
        "OutputFormat": fields.get("outputFormat", ""),
        "SerdeInfo": {
            "SerializationLibrary": serde.get("serializationLib", ""),
            "Parameters": serde.get("parameters", {}),
        },
    }
