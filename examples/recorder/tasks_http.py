"""HTTP tasks: 404, 409, 422 and 429 from the orders API, pages of a list, with and without repairs."""

from examples.recorder.agent import Agent
from examples.recorder.orders_api import Order
from examples.recorder.task import Script, Task, Verdict
from examples.recorder.workplace import Workplace

DATASET = "orders-api"
CUSTOMERS = ("Aoki", "Berg", "Costa", "Dubois")


def _prepare_orders(workplace: Workplace) -> None:
    for number in range(1, 16):
        workplace.orders.add(
            Order(
                id=f"ord_{1000 + number}",
                number=f"PO-{7000 + number}",
                customer=CUSTOMERS[number % len(CUSTOMERS)],
                currency="EUR",
                total=10 * number,
                status="shipped" if number % 5 == 0 else "open",
                note="Call before delivery." if number == 3 else "",
                version=3 if number == 3 else 1,
            )
        )


def _check_order(workplace: Workplace, answer: str) -> Verdict:
    found = [order for order in workplace.orders.orders.values() if order.customer == "Egger"]
    passed = len(found) == 1 and (found[0].total, found[0].currency) == (125, "EUR") and found[0].number in answer
    claim = "Egger has one order of 125 EUR, under the number in the answer"
    return Verdict(passed, claim, f"orders of Egger: {[order.as_json() for order in found]}")


CREATE_ORDER = Task(
    id="http-create-order",
    query="Create an order of 125 EUR for customer Egger, number PO-7004 or the next free one. Tell me its number.",
    ground_truth="PO-7016",
    prepare=_prepare_orders,
    check=_check_order,
    dataset=DATASET,
)


def _create_after_three_refusals(agent: Agent) -> str:
    def create(thought: str, *, fails: bool = False, **order: object) -> None:
        agent.does(thought, "http", fails=fails, method="POST", path="/v1/orders", body=order)

    create("I create the order.", fails=True, number="PO-7004", customer="Egger", total="125 EUR")
    create(
        "Two complaints at once: total must be a number, and the currency is a field of its own.",
        fails=True,
        number="PO-7004",
        customer="Egger",
        total=125,
        currency="€",
    )
    create("The currency is a code, EUR.", fails=True, number="PO-7004", customer="Egger", total=125, currency="EUR")
    agent.does(
        "409: the number is taken. Is that perhaps already this very order?",
        "http",
        method="GET",
        path="/v1/orders?number=PO-7004",
    )
    create(
        "No, another customer's. The 409 itself named the next free number.",
        number="PO-7016",
        customer="Egger",
        total=125,
        currency="EUR",
    )
    return "PO-7004 belongs to another customer, so the order of 125 EUR for Egger has the number PO-7016."


NOTE = "Call before delivery. Leave at the reception."


def _check_note(workplace: Workplace, _: str) -> Verdict:
    note = workplace.orders.orders["ord_1003"].note
    return Verdict(note == NOTE, f"the note of ord_1003 is {NOTE!r}", f"note: {note!r}")


ADD_NOTE = Task(
    id="http-add-note",
    query="Add 'Leave at the reception.' to the note of order 1003.",
    ground_truth=NOTE,
    prepare=_prepare_orders,
    check=_check_note,
    dataset=DATASET,
)


def _read_before_change(agent: Agent) -> str:
    change = {"note": "Leave at the reception.", "version": 1}

    def patch(thought: str, path: str, body: dict[str, object], *, fails: bool = False) -> None:
        agent.does(thought, "http", fails=fails, method="PATCH", path=path, body=body)

    patch("I set the note of order 1003.", "/v1/orders/1003", {**change}, fails=True)
    patch("Ids begin with ord_.", "/v1/orders/ord_1003", {**change}, fails=True)
    patch("A conflict; perhaps it passes the second time.", "/v1/orders/ord_1003", {**change}, fails=True)
    agent.does(
        "The same request gets the same answer: my version is out of date. I read the order first.",
        "http",
        method="GET",
        path="/v1/orders/ord_1003",
    )
    patch(
        "Version 3, and there is a note already that I would have overwritten. I append to it.",
        "/v1/orders/ord_1003",
        {"note": NOTE, "version": 3},
    )
    return f"The note of ord_1003 is now: {NOTE}"


def _check_total(workplace: Workplace, answer: str) -> Verdict:
    total = sum(order.total for order in workplace.orders.orders.values() if order.status == "open")
    return Verdict(f"{total} EUR" in answer, f"the answer states {total} EUR", f"open orders in the shop: {total} EUR")


OPEN_TOTAL = Task(
    id="http-open-total",
    query="What do all open orders come to, in EUR?",
    ground_truth="900 EUR",
    prepare=_prepare_orders,
    check=_check_total,
    dataset=DATASET,
)


def _sum_first_page(agent: Agent) -> str:
    def get(thought: str, path: str, *, fails: bool = False) -> None:
        agent.does(thought, "http", fails=fails, method="GET", path=path)

    get("I list the orders.", "/v1/orders")
    get("The fifth is shipped. I ask for the open ones only.", "/v1/orders?state=open", fails=True)
    get("The parameter is called status.", "/v1/orders?status=open")
    return "There are 5 open orders: 10 + 20 + 30 + 40 + 60 = 160 EUR."


def _follow_page_tokens(agent: Agent) -> str:
    def get(thought: str, path: str, *, fails: bool = False) -> None:
        agent.does(thought, "http", fails=fails, method="GET", path=path)

    get("I list the open orders, all on one page.", "/v1/orders?status=open&page_size=100", fails=True)
    get("At most 5 a page, then page by page.", "/v1/orders?status=open&page_size=5")
    get(
        "160 EUR so far. next_cursor is not null, so there is more.",
        "/v1/orders?status=open&page_size=5&cursor=ord_1006",
    )
    get("Plus 450, is 610 EUR. Still a cursor.", "/v1/orders?status=open&page_size=5&cursor=ord_1012")
    return "Over three pages, until next_cursor was null, there are 12 open orders: 160 + 450 + 290 = 900 EUR."


def _check_amount(workplace: Workplace, answer: str) -> Verdict:
    orders = workplace.orders.orders
    amount = sum(orders[f"ord_{number}"].total for number in (1001, 1002, 1003))
    return Verdict(f"{amount} EUR" in answer, f"the answer states {amount} EUR", f"the three invoices: {amount} EUR")


INVOICES = Task(
    id="http-invoices",
    query="Fetch the invoices of ord_1001, ord_1002 and ord_1003. What is due in total?",
    ground_truth="60 EUR",
    prepare=_prepare_orders,
    check=_check_amount,
    dataset=DATASET,
)


def _invoice(agent: Agent, thought: str, order: str, *, fails: bool = False) -> None:
    agent.does(thought, "http", fails=fails, method="GET", path=f"/v1/orders/{order}/invoice")


def _retry_at_once(agent: Agent) -> str:
    _invoice(agent, "The first invoice.", "ord_1001")
    _invoice(agent, "The second.", "ord_1002")
    _invoice(agent, "And the third.", "ord_1003", fails=True)
    _invoice(agent, "Too many requests? It was only three. Again.", "ord_1003", fails=True)
    _invoice(agent, "Again.", "ord_1003", fails=True)
    return agent.gives_up("I got two of the three invoices, 10 and 20 EUR; the API refuses the third.")


def _wait_for_retry_after(agent: Agent) -> str:
    _invoice(agent, "The first invoice.", "ord_1001")
    _invoice(agent, "The second.", "ord_1002")
    _invoice(agent, "And the third.", "ord_1003", fails=True)
    agent.does("429 with Retry-After: 10. Asking sooner is no use, I wait as long as it says.", "wait", seconds=10)
    _invoice(agent, "Now the third.", "ord_1003")
    return "The three invoices are 10, 20 and 30 EUR: 60 EUR is due in total."


SCRIPTS = (
    Script("http-create-422-409", CREATE_ORDER, _create_after_three_refusals),
    Script("http-note-404-409", ADD_NOTE, _read_before_change),
    Script("http-pages-first-only", OPEN_TOTAL, _sum_first_page),
    Script("http-pages-all", OPEN_TOTAL, _follow_page_tokens),
    Script("http-429-hammered", INVOICES, _retry_at_once),
    Script("http-429-waited", INVOICES, _wait_for_retry_after),
)
