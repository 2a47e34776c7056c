"""Kafka broker with Amazon MSK's IAM authentication; it verifies signatures of keys that a test issued."""

from headrace_stack.msk.broker import Iam, Key, Msk

__all__ = ["Iam", "Key", "Msk"]
