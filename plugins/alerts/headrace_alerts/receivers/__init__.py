"""Receivers of alerts."""
