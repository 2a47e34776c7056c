"""Formats: bytes to structs."""
