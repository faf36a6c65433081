"""An import-only stand-in for torchvision: a text model needs none of it."""

from __future__ import annotations

import _sgmock

__getattr__ = _sgmock.install(__name__, "0.28.0")
