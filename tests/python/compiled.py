"""The package with its compiled part, for tests: they are skipped where that was not built."""

import os

import pytest

if not os.environ.get("PIPESIM_PYTHON"):
    pytest.importorskip("_pipesim", reason="the compiled part of the package was not built")
