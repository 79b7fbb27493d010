"""Expected effect of each simulator fault on the one public call, for every platform."""

from socialpub.base.errors import Outcome

FAULTS = [
    # the fault, what is known after it, whether the call took effect
    ("reset_before", Outcome.AMBIGUOUS, False),
    ("reset_after", Outcome.AMBIGUOUS, True),
    ("error_after", Outcome.AMBIGUOUS, True),
    ("status:500", Outcome.AMBIGUOUS, False),
    ("status:503", Outcome.AMBIGUOUS, False),
    ("status:429", Outcome.THROTTLED, False),
    ("html", Outcome.AMBIGUOUS, False),
    ("truncated", Outcome.AMBIGUOUS, True),
    ("wrong_type", Outcome.AMBIGUOUS, True),
    ("missing_id", Outcome.AMBIGUOUS, True),
    ("endless", Outcome.AMBIGUOUS, True),
    ("gzip_bomb", Outcome.AMBIGUOUS, True),
    ("redirect_self", Outcome.AMBIGUOUS, False),
]
