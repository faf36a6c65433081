"""Says whether the installed weights are the ones that headrace was tested with; ends with 1 if not."""

from __future__ import annotations

import sys

from headrace.local.identity import sha256_of
from headrace.local.weights import CARRIERS, Weights, candidates


def main() -> int:
    found = {weights.path.name: weights for weights in candidates({}) if isinstance(weights, Weights)}
    for carrier in CARRIERS:
        weights = found.get(carrier.file)
        if weights is None or sha256_of(weights.path, None) != carrier.sha256:
            state = "not installed" if weights is None else f"not what it should be: {weights.path}"
            print(f"{carrier.package}: {carrier.file} is {state}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
