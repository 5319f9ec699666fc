"""For tests of what is the same code on every server: one major is enough."""

import pytest

embedded_only = pytest.mark.parametrize("major", ["18"], indirect=True)
