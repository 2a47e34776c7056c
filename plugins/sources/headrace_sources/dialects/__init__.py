"""Shapes of events: where op, key, images and position are."""
