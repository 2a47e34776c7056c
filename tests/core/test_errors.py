"""Base class of the errors that headrace raises."""

from __future__ import annotations

import pickle

from headrace.errors import ConfigError, RetriableError


def test_location_is_set_once() -> None:
    error = RetriableError("no answer", fix="wait")
    assert error.at("table orders") is error
    assert str(error.at("source kafka")) == "table orders: no answer\n  fix: wait"
    assert ConfigError("is missing", where="p.yaml:3").at("p.yaml").where == "p.yaml:3"


def test_error_is_picklable() -> None:
    error = pickle.loads(pickle.dumps(ConfigError("is missing", fix="write it").at("p.yaml:3")))
    assert (type(error), error.what, error.where, error.fix) == (ConfigError, "is missing", "p.yaml:3", "write it")
