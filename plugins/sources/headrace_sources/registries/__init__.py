"""Schema registries: records that name their writer schema by an id."""
