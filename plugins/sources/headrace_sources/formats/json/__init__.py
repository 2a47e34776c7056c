"""JSON with and without schemas."""
