"""For plugin authors: what a plugin has to keep, as tests that ship with headrace (``pip install 'headrace[testing]'``).

``headrace.testing.plugins``
    ``PluginConformance``: subclass it in a test module, and pytest collects a test for what every plugin has to keep.

``headrace.testing.sources``
    ``SourceConformance``: the same for what a source of records has to keep.

``headrace.testing.formats``
    ``FormatConformance``: the same for what a format of single records has to keep.

``headrace.testing.dialects``
    ``DialectConformance``: the same for what a dialect has to keep.

``headrace.testing.transforms``
    ``TransformConformance``: the same for what a transform has to keep.

``headrace.testing.sinks``
    ``SinkConformance``: the same for everything that the sink claims.

``headrace.testing.report``
    A pytest plugin that says at the end what each plugin was asked by its kit, and how it did.

``headrace.testing.spark``
    The fixture ``headrace_spark``: a session built for the plugins that ``headrace_plugins`` returns.

``headrace.testing.records``
    ``Records``, a source of the records that a test gives: for formats, dialects and transforms.

Nothing here is loaded by itself. A ``conftest.py`` names what it uses::

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
# Without it a failing assertion of the kit says nothing of the values.
pytest.register_assert_rewrite(*(f"headrace.testing.{name}" for name in _ASSERTING))
