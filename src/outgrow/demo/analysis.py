"""analysis.py: a shop's year of orders, analysed in memory. The program of outgrow's demo.

It makes up an order table, resamples its medians, indexes it, joins it with the customers and
the products, finds what is bought together, and ends with quantiles for each group. Every phase
keeps what it built, as such programs do, so memory grows in steps to a peak that is hard to
guess beforehand: about 600 MiB after about 20 s, and 256 MiB looked generous.

The report on standard output ends with a SHA-256 over the full result. It is the same on
every run, machine and Python from 3.11 on: only `Random.random()` (whose sequence Python
promises to keep) and whole numbers go into it, and nothing depends on the order of a hash.

    python3 -m outgrow.demo.analysis               # about 25 s, 600 MiB
    python3 -m outgrow.demo.analysis --scale 0.1   # about 2 s, 70 MiB
"""

from __future__ import annotations

import argparse
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import NamedTuple

SEED = 20_240_229
ORDERS = 1_200_000
CUSTOMERS = 75_000
PRODUCTS = 3_000
YEAR = 366 * 86_400
REGIONS = ("north", "east", "south", "west", "islands")
CATEGORIES = ("books", "garden", "kitchen", "music", "sport", "tools", "toys")
BUSY = (3, 3, 4, 4, 5, 7, 6)
"""How much is bought on each day of the week: seven is a Saturday."""
PERCENTS = (5, 25, 50, 75, 95, 99)
RESAMPLES = 70


class Sale(NamedTuple):
    """An order with what the customer and the product table say about it."""

    second: int
    customer: int
    product: int
    region: str
    category: str
    cents: int


@dataclass(frozen=True)
class Orders:
    """The order table, one column each: when, who, what, for how much."""

    seconds: array[int]
    customers: array[int]
    products: array[int]
    cents: array[int]

    def __len__(self) -> int:
        return len(self.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description="Analyse a made-up year of orders in memory.")
    parser.add_argument(
        "--scale", type=positive, default=1.0, metavar="X", help="1 is 1.2 million orders"
    )
    scale = parser.parse_args().scale
    say = progress(8)

    say("making up the orders")
    orders = make_orders(max(100, int(ORDERS * scale)), max(10, int(CUSTOMERS * scale)))
    say("resampling the medians")
    spread = spread_of_medians(orders)
    say(f"indexing {len(orders)} orders by customer")
    index = index_by_customer(orders)
    say("joining customers and products")
    sales = join(orders, index)
    say("cutting the year into visits")
    visits = cut_into_visits(sales)
    say("counting what is bought together")
    pairs = count_pairs(visits)
    say("quantiles by region and category")
    quantiles = quantiles_by_group(sales)
    say("adding up the result")
    report(len(orders), visits, pairs, quantiles, spread)
    return 0


def make_orders(count: int, customers: int) -> Orders:
    """`count` orders in no order. A few customers and products have most of them."""
    draw = Random(SEED).random
    orders = Orders(array("q"), array("q"), array("q"), array("q"))
    while len(orders) < count:
        second = int(draw() * YEAR)
        if draw() * 7 > BUSY[second // 86_400 % 7]:
            continue
        orders.seconds.append(second)
        orders.customers.append(int(draw() * draw() * customers))
        orders.products.append(int(draw() * draw() * PRODUCTS))
        orders.cents.append(99 + int(draw() * draw() * draw() * 50_000))
    return orders


def spread_of_medians(orders: Orders) -> dict[str, list[int]]:
    """How sure each category's median is: the quantiles of medians of resampled prices."""
    draw = Random(SEED + 1).random
    prices: dict[str, list[int]] = defaultdict(list)
    for product, cents in zip(orders.products, orders.cents, strict=True):
        prices[category_of(product)].append(cents)
    spread = {}
    for category in sorted(prices):
        known = prices[category]
        sample = max(1, len(known) // 8)
        medians = []
        for _ in range(RESAMPLES):
            drawn = sorted(known[int(draw() * len(known))] for _ in range(sample))
            medians.append(drawn[sample // 2])
        spread[category] = at_percents(sorted(medians))
    return spread


def index_by_customer(orders: Orders) -> dict[int, list[int]]:
    """For each customer her rows of the order table, in the order of time."""
    rows: dict[int, list[int]] = defaultdict(list)
    for row, customer in enumerate(orders.customers):
        rows[customer].append(row)
    seconds = orders.seconds
    for mine in rows.values():
        mine.sort(key=lambda row: (seconds[row], row))
    return rows


def join(orders: Orders, index: dict[int, list[int]]) -> list[list[Sale]]:
    """Each customer's sales in the order of time, the customers by number."""
    return [
        [
            Sale(
                orders.seconds[row],
                customer,
                orders.products[row],
                region_of(customer),
                category_of(orders.products[row]),
                orders.cents[row],
            )
            for row in index[customer]
        ]
        for customer in sorted(index)
    ]


def cut_into_visits(sales: list[list[Sale]]) -> list[list[Sale]]:
    """A visit ends when a customer buys nothing for ten days."""
    visits: list[list[Sale]] = []
    for mine in sales:
        visit: list[Sale] = []
        for sale in mine:
            if visit and sale.second - visit[-1].second > 10 * 86_400:
                visits.append(visit)
                visit = []
            visit.append(sale)
        visits.append(visit)
    return visits


def count_pairs(visits: list[list[Sale]]) -> dict[tuple[int, int], int]:
    """How often two products were bought in one visit, at most three orders apart."""
    pairs: dict[tuple[int, int], int] = defaultdict(int)
    for visit in visits:
        for place, earlier in enumerate(visit):
            for later in visit[place + 1 : place + 4]:
                one, other = sorted((earlier.product, later.product))
                pairs[one, other] += 1
    return pairs


def quantiles_by_group(sales: list[list[Sale]]) -> dict[tuple[str, str], list[int]]:
    """For each region and category the prices at PERCENTS, in cents, by nearest rank."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for mine in sales:
        for sale in mine:
            groups[sale.region, sale.category].append(sale.cents)
    return {key: at_percents(sorted(groups[key])) for key in sorted(groups)}


def region_of(customer: int) -> str:
    return REGIONS[customer * 7 % 31 % len(REGIONS)]


def category_of(product: int) -> str:
    return CATEGORIES[product * 11 % 37 % len(CATEGORIES)]


def at_percents(ordered: list[int]) -> list[int]:
    return [ordered[(len(ordered) - 1) * percent // 100] for percent in PERCENTS]


def report(
    orders: int,
    visits: list[list[Sale]],
    pairs: dict[tuple[int, int], int],
    quantiles: dict[tuple[str, str], list[int]],
    spread: dict[str, list[int]],
) -> None:
    digest = sha256()
    for line in full_result(visits, pairs, quantiles, spread):
        digest.update(line.encode())
    longest = max(map(len, visits))
    print(f"{orders} orders in {len(visits)} visits, the longest with {longest} orders")
    best = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:3]
    for (one, other), times in best:
        print(f"products {one} and {other} were bought together {times} times")
    for category, medians in list(spread.items())[:3]:
        low, high = medians[0] / 100, medians[PERCENTS.index(95)] / 100
        print(f"half of all {category} cost at most {low:.2f} to {high:.2f}")
    print(f"sha256 of the full result: {digest.hexdigest()}", flush=True)


def full_result(
    visits: list[list[Sale]],
    pairs: dict[tuple[int, int], int],
    quantiles: dict[tuple[str, str], list[int]],
    spread: dict[str, list[int]],
) -> Iterator[str]:
    for visit in visits:
        total = sum(sale.cents for sale in visit)
        yield f"visit {visit[0].customer} {visit[0].second} {len(visit)} {total}\n"
    for (one, other), times in sorted(pairs.items()):
        yield f"pair {one} {other} {times}\n"
    for key, prices in quantiles.items():
        yield f"quantiles {key} {prices}\n"
    for category, medians in spread.items():
        yield f"medians {category} {medians}\n"


def progress(steps: int) -> Callable[[str], None]:
    """One line for each phase on standard error."""
    counter = iter(range(1, steps + 1))

    def say(what: str) -> None:
        print(f"[{next(counter)}/{steps}] {what}", file=sys.stderr, flush=True)

    return say


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError("more than 0, at most 100")
    return number


if __name__ == "__main__":
    sys.exit(main())
