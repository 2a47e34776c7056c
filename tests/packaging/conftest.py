"""The tests of a third party's project run where that one is installed."""

collect_ignore = ["headrace_acme"]
