"""Seeded bugs: put a small bug into kwire, run the tests, see whether one of them fails.

``python -m tests.mutants --folder kwire/log --count 200 --seed 1``, or ``make mutants``. The seed
chooses the bugs: first one of the kinds, then a place for it. What was found is kept in
``.cache/mutants``: a run that was interrupted goes on, and ``--survivors`` tries those again that
no test has caught. docs/CONTRIBUTING-TESTS.md explains those that are left.
"""

import argparse
import difflib
import json
import random
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from tests.mutants.mutations import Mutation, is_python, mutations_of
from tests.mutants.pytest_run import ROOT, warm_up
from tests.mutants.trial import Trial

EQUIVALENT = Path(__file__).with_name("equivalent.json")
FOLDERS = [
    f"kwire/{room}"
    for room in [
        "broker",
        "handlers",
        "connection",
        "dispatch",
        "log",
        "coordinator",
        "record",
        "metadata",
        "protocol",
    ]
]


def choose(texts: dict[str, str], count: int, seed: int) -> list[Mutation]:
    """So many bugs in these files: each room and each kind as often as any other.

    Large rooms and frequent kinds would have most of them otherwise.
    """
    chance = random.Random(seed)
    kinds: dict[tuple[str, str], list[Mutation]] = {}
    for mutation in chain.from_iterable(mutations_of(*file) for file in texts.items()):
        room = "/".join(Path(mutation.path).parts[:2])
        kinds.setdefault((room, mutation.kind), []).append(mutation)
    for some in kinds.values():
        chance.shuffle(some)
    chosen: list[Mutation] = []
    while len(chosen) < count and kinds:
        kind = chance.choice(sorted(kinds))
        mutation = kinds[kind].pop()
        if is_python(mutation.path, mutation.apply(texts[mutation.path])):
            chosen.append(mutation)
        if not kinds[kind]:
            del kinds[kind]
    return chosen


def difference(mutation: Mutation, text: str) -> str:
    """The bug as a diff."""
    lines = difflib.unified_diff(
        text.splitlines(),
        mutation.apply(text).splitlines(),
        mutation.path,
        f"{mutation.path} ({mutation.kind})",
        n=2,
        lineterm="",
    )
    return "\n".join(lines)


class Equivalent:
    """Bugs that change nothing that anybody could see, and why; a person has written them down.

    The file has them by the path of their source file, and by the line as it is with the bug.
    """

    def __init__(self, file: Path) -> None:
        self.known: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))

    def why(self, mutation: Mutation, text: str) -> str:
        """Why nobody can see a bug; empty for one that isn't known as equivalent."""
        return self.known.get(mutation.path, {}).get(mutation.changed_line(text), "")


class Results:
    """What earlier runs found, by the mutation's key; a line of JSON for each.

    ``caught_by`` is empty where no test has failed; ``tried_all`` says that the far tests ran too.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[str, dict[str, Any]] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                self.known[found["key"]] = found

    def add(self, key: str, caught_by: str, *, tried_all: bool) -> None:
        """Keep one."""
        found = {"key": key, "caught_by": caught_by, "tried_all": tried_all}
        self.known[key] = found
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(found) + "\n")


def try_out(
    chosen: list[Mutation], texts: dict[str, str], results: Results, trial: Trial, *, again: bool
) -> None:
    """Try the bugs out: all against the tests near them, then what is left against the others.

    ``again`` tries those again that survived all tests before.
    """
    trial.copy()
    for tried_all in (False, True):
        for place, mutation in enumerate(chosen, 1):
            text = texts[mutation.path]
            key = mutation.key(text)
            known = results.known.get(key)
            if known and (known["caught_by"] or (known["tried_all"] and not again)):
                continue
            if known and not tried_all and not again:
                continue
            stages = [trial.far] if tried_all else [trial.closest, trial.near]
            caught_by = ""
            for tests_of in stages:
                caught_by = caught_by or trial.try_out(mutation, text, tests_of(mutation))
            results.add(key, caught_by, tried_all=tried_all)
            outcome = caught_by or ("survived" if tried_all else "not caught yet")
            print(f"{place}: {outcome}: {where(mutation)}", flush=True)


def where(mutation: Mutation) -> str:
    """The file, the line and the kind of a bug."""
    return f"{mutation.path}:{mutation.line} {mutation.kind}"


def report(
    chosen: list[Mutation], texts: dict[str, str], results: Results, equivalent: Equivalent
) -> int:
    """Print the survivors with their diffs, and how many were caught; the number of survivors.

    Those that are equivalent count neither as caught nor as survivors.
    """
    survivors, caught, untried = [], 0, 0
    explained = [m for m in chosen if equivalent.why(m, texts[m.path])]
    for mutation in explained:
        print(f"EQUIVALENT {where(mutation)}: {equivalent.why(mutation, texts[mutation.path])}")
    for mutation in [mutation for mutation in chosen if mutation not in explained]:
        known = results.known.get(mutation.key(texts[mutation.path]))
        if known and known["caught_by"]:
            caught += 1
        elif known and known["tried_all"]:
            survivors.append(mutation)
        else:
            untried += 1
    for mutation in survivors:
        print(f"SURVIVED {where(mutation)}\n{difference(mutation, texts[mutation.path])}\n")
    tried = caught + len(survivors)
    print(f"{caught} of {tried} bugs were caught ({100 * caught / max(tried, 1):.1f} %)", end="")
    print(f", {len(explained)} more are equivalent", end="")
    print(f"; {untried} weren't tried to the end" if untried else "")
    return len(survivors)


def say_left_out(left_out: dict[str, list[str]]) -> bool:
    """Print the tests that could catch no bug; whether there are none that fail without any.

    A red test is a hole in what is measured. One may be skipped for what the machine lacks.
    """
    for why, tests in left_out.items():
        for name in sorted(tests):
            print(f"LEFT OUT, {why} without a bug: {name}")
    return not left_out["failed"]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--folder", action="append", help="a folder or file of kwire; repeatable")
    parser.add_argument("--count", type=int, default=200, help="how many bugs (200)")
    parser.add_argument("--seed", type=int, default=1, help="which bugs (1)")
    parser.add_argument("--work", type=Path, default=ROOT / ".cache/mutants", help="where to work")
    parser.add_argument("--survivors", action="store_true", help="try survivors of before again")
    parser.add_argument("--report", action="store_true", help="print what is known, try nothing")
    return parser.parse_args()


def main() -> int:
    """Try the bugs out and print what became of each; 1 if one wasn't caught or a test is red."""
    options = arguments()
    files = sorted(
        {
            file.relative_to(ROOT).as_posix()
            for folder in options.folder or FOLDERS
            for file in (
                [ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py")
            )
        }
    )
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    chosen = choose(texts, options.count, options.seed)
    print(f"{len(chosen)} bugs in {len(files)} files", flush=True)
    results = Results(options.work / "results.jsonl")
    equivalent = Equivalent(EQUIVALENT)
    are_whole = True
    if not options.report:
        warm_up()
        trial = Trial(ROOT, options.work.resolve())
        to_try = [m for m in chosen if not equivalent.why(m, texts[m.path])]
        try_out(to_try, texts, results, trial, again=options.survivors)
        are_whole = say_left_out(trial.left_out)
    return 0 if report(chosen, texts, results, equivalent) == 0 and are_whole else 1


if __name__ == "__main__":
    sys.exit(main())
