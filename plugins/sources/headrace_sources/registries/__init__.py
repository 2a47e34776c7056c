"""Schema registries: records that contain the id of their writer schema."""
