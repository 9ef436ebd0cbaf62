"""The entry for spark-submit: ``spark-submit [options] kwire/spark/__main__.py run orders.toml``.

It is ``kwire pipeline`` with the same arguments; ``kwire pipeline submit-args`` prints the options.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # A script's own directory comes first on the path, and some modules in it have common names.
    here = Path(__file__).resolve().parent
    sys.path[:] = [one for one in sys.path if not one or Path(one).resolve() != here]
    if here.parents[1].joinpath("kwire", "__init__.py").exists():
        sys.path.append(str(here.parents[1]))

    from kwire.cli import main

    sys.exit(main(["pipeline", *sys.argv[1:]]))
