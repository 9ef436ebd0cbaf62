"""Seeded bugs: put a small bug into kwire, run the tests, see whether one of them fails.

``python -m tests.mutants --folder kwire/log --count 200 --seed 1``, or ``make mutants``. The seed
chooses the bugs: first one of the kinds, then a place for it. What was found is kept in
``.cache/mutants``: a run that was interrupted goes on, and ``--missed`` tries those again that no
test has caught. docs/CONTRIBUTING-TESTS.md explains those that are left.
"""

import argparse
import difflib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

from tests.mutants.forks import in_children
from tests.mutants.mutations import Mutation, is_python, mutations_of
from tests.mutants.progress import bar
from tests.mutants.session import ROOT, warm_up
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

OUTCOMES = ("Equivalent", "Caught in its room", "in others", "Missed", "Not tried")


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
    """What was found, by the mutation's key; a line of JSON for each, which any process may add.

    ``caught_by`` is empty where no test has failed.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[str, str] = {}
        self._read_bytes = 0
        self.read()

    def read(self) -> list[str]:
        """The keys of those that were added since the last time."""
        if not self.file.exists():
            return []
        with self.file.open("rb") as lines:
            lines.seek(self._read_bytes)
            added = [json.loads(line) for line in lines]
            self._read_bytes = lines.tell()
        self.known |= {found["key"]: found["caught_by"] for found in added}
        return [found["key"] for found in added]

    def forget_missed(self) -> None:
        """Know only of those that were caught."""
        self.known = {key: caught_by for key, caught_by in self.known.items() if caught_by}

    def add(self, key: str, caught_by: str) -> None:
        """Keep one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"key": key, "caught_by": caught_by}) + "\n")


class Run:
    """Bugs that are tried out on one copy of the tree."""

    def __init__(
        self, chosen: list[Mutation], texts: dict[str, str], results: Results, trial: Trial
    ) -> None:
        self.keys = {mutation.key(texts[mutation.path]): mutation for mutation in chosen}
        self.texts, self.results, self.trial = texts, results, trial

    def try_out(self, keys: set[str]) -> None:
        """Try some of them out, nearly all in one session; those that are left, each in its own."""
        self.trial.copy()
        self.trial.collected(
            lambda collected: self._each(keys, "bugs in functions", collected.try_out)
        )
        self.results.read()
        left = keys - self.results.known.keys()
        self._each(left, "bugs that are imported", self.trial.anew)

    def _each(self, keys: set[str], what: str, way: Callable[[Mutation, str], str | None]) -> None:
        """Each in a process of its own."""

        def try_one(key: str, mutation: Mutation) -> None:
            caught_by = way(mutation, self.texts[mutation.path])
            if caught_by is not None:
                self.results.add(key, caught_by)

        chosen = [(key, mutation) for key, mutation in self.keys.items() if key in keys]
        works = [partial(try_one, *one) for one in chosen]
        bar(what, len(works), in_children(self.trial.jobs, works), self._say)

    def _say(self) -> list[str]:
        """What was found since the last time."""
        added = [key for key in self.results.read() if key in self.keys]
        known = self.results.known
        return [f"{known[key] or 'MISSED'}: {where(self.keys[key])}" for key in added]


def where(mutation: Mutation) -> str:
    """The file, the line and the kind of a bug."""
    return f"{mutation.path}:{mutation.line} {mutation.kind}"


def report(
    chosen: list[Mutation], texts: dict[str, str], results: Results, equivalent: Equivalent
) -> int:
    """Print the missed ones with their diffs, and a table; the number of missed ones.

    Those that are equivalent count neither as caught nor as missed.
    """
    rooms: dict[str, Counter[str]] = {}
    for mutation in chosen:
        text = texts[mutation.path]
        room = Path(mutation.path).parts[1]
        caught_by = results.known.get(mutation.key(text))
        if why := equivalent.why(mutation, text):
            outcome = "Equivalent"
            print(f"EQUIVALENT {where(mutation)}: {why}")
        elif caught_by is None:
            outcome = "Not tried"
        elif caught_by:
            outcome = "Caught in its room" if f" tests/{room}/" in caught_by else "in others"
        else:
            outcome = "Missed"
            print(f"MISSED {where(mutation)}\n{difference(mutation, text)}\n")
        rooms.setdefault(f"`kwire/{room}`", Counter()).update([outcome])
    together = sum(rooms.values(), Counter[str]())
    print(f"| Room | Bugs | {' | '.join(OUTCOMES)} |")
    print(f"| --- | --: |{' --: |' * len(OUTCOMES)}")
    for name, found in [*rooms.items(), ("together", together)]:
        counts = [found.total(), *(found[outcome] for outcome in OUTCOMES)]
        print(f"| {name} | {' | '.join(map(str, counts))} |")
    caught = together["Caught in its room"] + together["in others"]
    tried = caught + together["Missed"]
    print(f"{caught} of {tried} bugs were caught ({100 * caught / max(tried, 1):.1f} %)")
    return together["Missed"]


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
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--most-s", type=float, default=60, help="of tests for each bug (60)")
    parser.add_argument("--missed", action="store_true", help="try those missed before again")
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
        work = options.work.resolve()
        trial = Trial(ROOT, work, jobs=options.jobs, most_s=options.most_s)
        run = Run(
            [m for m in chosen if not equivalent.why(m, texts[m.path])], texts, results, trial
        )
        if options.missed:
            results.forget_missed()
        run.try_out(run.keys.keys() - results.known.keys())
        are_whole = say_left_out(trial.left_out)
    return 0 if report(chosen, texts, results, equivalent) == 0 and are_whole else 1


if __name__ == "__main__":
    sys.exit(main())
