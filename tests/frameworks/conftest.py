"""Show the values of failed assertions of `scripted`."""

import pytest

pytest.register_assert_rewrite("tests.frameworks.scripted_runs")
