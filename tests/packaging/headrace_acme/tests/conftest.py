pytest_plugins = ["headrace.testing.spark"]
