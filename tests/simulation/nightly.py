"""``make nightly``: simulates clusters from new seeds until enough virtual time has passed.

Each batch of seeds is a run of pytest, with one scenario for each seed. A failure names its seed,
and the batches go on. The exit code is 1 if a seed failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.simulation.run import TIMES_VARIABLE

BATCH = 100
SEEDS = 1_000_000


def main() -> int:
    """Run batches; 1 if a seed failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24, help="virtual time (default: 24)")
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else SystemRandom().randrange(SEEDS)
    print(f"clusters from seed {seed} on, for {options.hours:g} hours of virtual time", flush=True)
    hours, failed = 0.0, 0
    with tempfile.TemporaryDirectory() as directory:
        times = Path(directory) / "times"
        while hours < options.hours:
            failed += _run(seed, times)
            hours = sum(map(float, times.read_text().split())) / 3600
            print(
                f"seeds {seed} to {seed + BATCH - 1}: {hours:.1f} of {options.hours:g} hours, "
                f"batches with failures: {failed}",
                flush=True,
            )
            seed += BATCH
    return 1 if failed else 0


def _run(seed: int, times: Path) -> int:
    """Run one batch, which appends its virtual times; 1 if a seed failed."""
    environment = {
        **os.environ,
        "KWIRE_SEEDS": f"{seed}-{seed + BATCH - 1}",
        "KWIRE_SPREAD": "yes",
        "PYTHONHASHSEED": "0",
        TIMES_VARIABLE: str(times),
    }
    workers = ["-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", "-q", "tests/simulation", *workers]
    command += ["--ignore", "tests/simulation/test_bugs.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, flush=True)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
