"""Configurations of Hudi Streamer, formerly DeltaStreamer: properties and command lines."""
