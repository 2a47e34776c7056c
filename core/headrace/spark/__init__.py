"""The Spark that headrace runs on: its Java, its jars, its sessions."""
