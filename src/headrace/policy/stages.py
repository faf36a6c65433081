"""What the self-tuning window may be about, and the figures that it goes by."""

from __future__ import annotations

from enum import StrEnum

RAMP = 2.0  # the ramp doubles
STEP = 1.2  # a probe goes so far up or down
# Growth of delivery against growth of the window, as a quotient of logarithms: 1 where all of it pays.
PROPORTIONAL = 0.75  # the ramp goes on, and a probe is followed by one twice as large
STEEP = 0.5  # a probe is followed by one a third as large again
STILL_GROWS = 0.35  # the ramp's last step was no mistake
WORTH = 0.2  # a larger window is kept
BENT = 0.2  # the share of a full server's queueing above which a larger window is too large, whatever it delivers
FINE = 1.15  # a probe that went further than this and found some gain is followed by one half as far
NEAR = 1.08
TIGHT = 1.04  # a window is not tried that is nearer to the one that is held
EQUAL = 0.985  # a smaller window that delivers so much is as good
AS_GOOD = 0.98  # one that was sought between a good and a poor one: a server whose memory overflows delivers no less for long
MARGIN = 1.1  # where the ramp ends, this much more than what its last step paid
SURGE = 1.3  # rounds under a larger window that are not counted: at first it delivers what does not last
SURE = 0.02  # the standard error at which a probe is judged
CHANGED = 0.15  # the server's own pace has changed when a full window delivers so much more or less
LEAST_JUDGED = 32
FIRST_REST = 4  # rounds between probes; doubled with each that finds nothing better
LONGEST_REST = 24
MOST_UPS = 4
LONGEST_REST_UNITS = 512
MOST_BROKEN = 3  # so many refusals of what a server has told, and it is searched for below that


class Stage(StrEnum):
    """What the self-tuning window is about."""

    RAMP = "ramp"  # doubling while that delivers more
    HOLD = "hold"  # at the best window known
    UP = "up"  # trying a larger one
    DOWN = "down"  # trying a smaller one
    TOLD = "told"  # at what the server itself says
