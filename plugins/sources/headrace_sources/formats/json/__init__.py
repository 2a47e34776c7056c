"""JSON, with schemas beside it or without."""
