"""Helpers for Spark sessions, columns, files and errors."""
