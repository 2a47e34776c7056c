"""Test kits for plugin authors (``pip install 'headrace[testing]'``).

``headrace.testing.plugins``
    ``PluginConformance``: tests of the contract of every plugin. Subclass it in a test module, and pytest collects them.

``headrace.testing.sources``
    ``SourceConformance``: tests of a source of records.

``headrace.testing.formats``
    ``FormatConformance``: tests of a format of single records.

``headrace.testing.dialects``
    ``DialectConformance``: tests of a dialect.

``headrace.testing.transforms``
    ``TransformConformance``: tests of a transform.

``headrace.testing.observers``
    ``ObserverConformance``: tests of an observer.

``headrace.testing.sinks``
    ``SinkConformance``: tests of a sink and of each capability that it claims.

``headrace.testing.report``
    A pytest plugin that reports the results of the kits per plugin and capability.

``headrace.testing.spark``
    The fixture ``headrace_spark``: a session for the plugins in the fixture ``headrace_plugins``.

``headrace.testing.records``
    ``Records``, a source of given records, for tests of formats, dialects and transforms.

Nothing here is loaded automatically. A ``conftest.py`` lists what it uses::

    import pytest
    from headrace_acme import AcmeSink

    pytest_plugins = ["headrace.testing.spark"]

    @pytest.fixture(scope="session")
    def headrace_plugins():
        return [AcmeSink(path="/tmp")]
"""

import pytest

_ASSERTING = (
    "dialects",
    "formats",
    "observers",
    "plugins",
    "sinks",
    "sources",
    "transforms",
    "_internal.environment",
    "_internal.fault_injection",
    "_internal.histories",
    "tables",
    "_internal.values",
)
# Without it, a failing assertion of a kit does not show the values.
pytest.register_assert_rewrite(*(f"headrace.testing.{name}" for name in _ASSERTING))
