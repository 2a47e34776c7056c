"""Dialects: where events have op, key, row images and position."""
