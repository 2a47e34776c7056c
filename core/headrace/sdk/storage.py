"""Folders and paths in Hadoop's file systems."""

from __future__ import annotations

from headrace.spark.storage import Folder, is_under, qualify_path

__all__ = ["Folder", "is_under", "qualify_path"]
