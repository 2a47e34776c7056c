"""Datasets of a table's run, with the facets of their schemas, columns and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)

from headrace.sdk import Dataset
from headrace.sdk.observer import ColumnSource, TableLineage
from headrace_openlineage.producer import PRODUCER
from headrace_openlineage.table_counts import SinkCounts


class LineageFacets:
    """Datasets of one table. ``namespace``: that of datasets whose place is unknown."""

    def __init__(self, lineage: TableLineage, namespace: str) -> None:
        self._lineage, self._namespace = lineage, namespace

    def list_inputs(self) -> list[InputDataset]:
        """Return the topics of the table, or the tables of a view, with their columns."""
        return [
            InputDataset(
                place.namespace, place.name, facets={"schema": _describe_schema(self._lineage.inputs[name].types)}
            )
            for name, place in self._inputs.items()
        ]

    def list_outputs(self, counts: Mapping[str, SinkCounts]) -> list[OutputDataset]:
        """Return the table in each of its sinks, with what was written. ``counts``: those of each sink."""
        facets: dict[str, DatasetFacet] = {
            "schema": _describe_schema(self._lineage.types),
            "columnLineage": self._describe_columns(),
        }
        outputs = []
        for sink, dataset in self._lineage.outputs.items():
            place = dataset or self._name_unknown(self._lineage.table, sink)
            found = counts.get(sink, SinkCounts())
            written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=found.rows, size=found.bytes, producer=PRODUCER
            )
            outputs.append(
                OutputDataset(place.namespace, place.name, facets=facets, outputFacets={"outputStatistics": written})
            )
        return outputs

    @property
    def _inputs(self) -> dict[str, Dataset]:
        return {
            name: found.dataset or self._name_unknown(name, found.sink) for name, found in self._lineage.inputs.items()
        }

    def _name_unknown(self, name: str, sink: str | None) -> Dataset:
        """Return the dataset of data whose place is unknown: a topic, or a table in a sink."""
        return Dataset(self._namespace, f"{sink}.{name}" if sink else name)

    def _describe_columns(self) -> column_lineage_dataset.ColumnLineageDatasetFacet:
        fields = {
            column: column_lineage_dataset.Fields(inputFields=self._list_fields(sources))
            for column, sources in self._lineage.sources.items()
            if sources
        }
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            fields=fields, dataset=self._list_fields(self._lineage.filters, subtype="FILTER"), producer=PRODUCER
        )

    def _list_fields(
        self, sources: Iterable[ColumnSource], subtype: str | None = None
    ) -> list[column_lineage_dataset.InputField]:
        """Return columns of inputs. ``subtype``: that of an indirect use."""
        places, found = self._inputs, dict[tuple[str, str], list[ColumnSource]]()
        for source in sorted(sources, key=lambda one: (one.input, one.column, one.is_masked, one.is_changed)):
            found.setdefault((source.input, source.column), []).append(source)
        return [
            column_lineage_dataset.InputField(
                namespace=places[name].namespace,
                name=places[name].name,
                field=column,
                transformations=[_describe_use(one, subtype) for one in uses],
            )
            for (name, column), uses in found.items()
        ]


def _describe_use(source: ColumnSource, subtype: str | None) -> column_lineage_dataset.Transformation:
    kind = "DIRECT" if subtype is None else "INDIRECT"
    own = "TRANSFORMATION" if source.is_changed or source.is_masked else "IDENTITY"
    return column_lineage_dataset.Transformation(type=kind, subtype=subtype or own, masking=source.is_masked)


def _describe_schema(types: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in types.items()]
    return schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)
