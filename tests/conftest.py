"""Settings every unit test shares.

Property tests repeat the same examples on every run, so a red test stays red; `make fuzz` looks
for new ones and for many more of them.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("KWIRE_FUZZ_EXAMPLES", "5000")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fuzz" if "KWIRE_FUZZ_EXAMPLES" in os.environ else "repeatable")
