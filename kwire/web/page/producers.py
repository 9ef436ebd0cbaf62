"""``/producers``: transactional ids, open transactions with their age, and producers.

A transaction hangs if it is open in a partition and no transactional id knows it: its coordinator
has ended or forgotten it. A hanging transaction keeps read_committed consumers from reading on.
"""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.broker.broker import Broker
from kwire.budget.slices import Slices
from kwire.coordinator.transaction.state import AT_REST, Transaction
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.paging import PER_PAGE, filter_text, page_of, paged, span
from kwire.web.page.site import Site

MAX_OPEN = 200
MAX_IDS = 20_000
MAX_PRODUCERS = 20_000
MAX_PARTITIONS_SHOWN = 20


class OpenRow(NamedTuple):
    """A producer's open transaction, as its partitions see it."""

    producer_id: int
    epoch: int
    transactional_id: str
    since_ms: int
    places: list[tuple[str, int, int]]
    total: int
    state: str
    timeout_ms: int


class ProducerRow(NamedTuple):
    """A producer in one partition."""

    producer_id: int
    epoch: int
    topic: str
    partition: int
    last_sequence: int
    last_ms: int
    transactional_id: str
    is_open: bool


class Facts(NamedTuple):
    """The data that the view shows; ``is_cut`` says whether it lacks some producers."""

    now_ms: int
    open: list[OpenRow]
    ids: list[Transaction]
    producers: list[ProducerRow]
    is_cut: bool


def routes(site: Site) -> list[Route]:
    """The routes of this view."""

    async def producers(request: Request) -> Response:
        facts = await site.broker_calls.run(gather, filter_text(request))
        _, places = span(request, len(facts.producers))
        return site.render(
            request,
            "producers.html",
            title="Producers",
            facts=facts,
            ids=paged(request, facts.ids, lambda one: one.transactional_id).rows[:PER_PAGE],
            page=page_of(
                request, facts.producers[places.start : places.stop], len(facts.producers)
            ),
            at_rest=AT_REST,
        )

    return [site.route("/producers", producers)]


async def gather(observed: Observed, wanted: str) -> Facts:
    """Transactions, and the producers that ``wanted`` fits, in the broker's event loop."""
    broker, slices = observed.broker, Slices()
    ids = await _transactional_ids(broker, slices)
    known = {one.producer_id: one for one in ids}
    opened: dict[int, OpenRow] = {}
    rows: list[ProducerRow] = []
    is_cut = False
    for partition in broker.partitions():
        await slices.give_way()
        states = partition.log.producers
        for producer_id, first_offset in states.open_transactions.items():
            await slices.give_way()
            entry = states.producers.get(producer_id)
            since_ms = entry.timestamp if entry else -1
            _note_open(opened, known.get(producer_id), producer_id, since_ms)
            if producer_id in opened:
                row = opened[producer_id]
                if len(row.places) < MAX_PARTITIONS_SHOWN:
                    row.places.append((partition.topic, partition.index, first_offset))
                epoch = entry.producer_epoch if entry else row.epoch
                opened[producer_id] = row._replace(total=row.total + 1, epoch=epoch)
        for entry in list(states.producers.values()):
            await slices.give_way()
            name = known[entry.producer_id].transactional_id if entry.producer_id in known else ""
            if wanted and wanted not in f"{partition.topic} {name} {entry.producer_id}".lower():
                continue
            if len(rows) >= MAX_PRODUCERS:
                is_cut = True
                break
            rows.append(
                ProducerRow(
                    entry.producer_id,
                    entry.producer_epoch,
                    partition.topic,
                    partition.index,
                    entry.last_sequence,
                    entry.timestamp,
                    name,
                    entry.producer_id in states.open_transactions,
                )
            )
    found = sorted(opened.values(), key=lambda row: row.since_ms)
    return Facts(broker.now_ms(), found, ids, rows, is_cut)


def _note_open(
    opened: dict[int, OpenRow], known: Transaction | None, producer_id: int, since_ms: int
) -> None:
    """Begin a row for a producer with an open transaction, unless there are too many."""
    if producer_id in opened or len(opened) >= MAX_OPEN:
        return
    if known is None or known.state in AT_REST:
        name = known.transactional_id if known else ""
        opened[producer_id] = OpenRow(producer_id, -1, name, since_ms, [], 0, "hangs", -1)
        return
    opened[producer_id] = OpenRow(
        producer_id,
        known.producer_epoch,
        known.transactional_id,
        known.start_ms,
        [],
        0,
        known.state.title,
        known.timeout_ms,
    )


async def _transactional_ids(broker: Broker, slices: Slices) -> list[Transaction]:
    """The state of each transactional id; those with an open transaction first, by age."""
    if "transactions" not in vars(broker):
        return []
    found: list[Transaction] = []
    for home in broker.transactions.loaded():
        for known in list(home.coordinator.transactions.values()):
            await slices.give_way()
            if len(found) < MAX_IDS:
                found.append(known)
    found.sort(key=lambda one: (one.state in AT_REST, one.start_ms, one.transactional_id))
    return found
