"""Amazon MSK's login with IAM at a real broker: it verifies what a client signed with keys that a test has issued."""

from headrace_stack.msk.broker import Iam, Key, Msk

__all__ = ["Iam", "Key", "Msk"]
