"""SQLite tasks: an unknown column, a database locked by its own transaction, and a UNIQUE constraint (in Japanese)."""

from examples.recorder.agent import Agent
from examples.recorder.task import Script, Task, Verdict
from examples.recorder.workplace import Workplace

SHOP = """
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer TEXT, quantity INTEGER, unit_price_cents INTEGER, status TEXT
);
INSERT INTO orders (customer, quantity, unit_price_cents, status) VALUES
  ('Aoki', 2, 1250, 'paid'), ('Berg', 1, 9900, 'shipped'), ('Costa', 3, 400, 'paid'),
  ('Dubois', 1, 2600, 'canceled'), ('Egger', 5, 1000, 'shipped');
"""


def _check_revenue(workplace: Workplace, answer: str) -> Verdict:
    sql = "SELECT SUM(quantity * unit_price_cents) FROM orders WHERE status <> 'canceled'"
    cents = workplace.rows("shop.db", sql)[0][0]
    assert isinstance(cents, int)
    euros = f"{cents / 100:.2f} EUR"
    return Verdict(euros in answer, f"the answer states {euros}", f"{sql}: {cents}")


REVENUE = Task(
    id="sqlite-revenue",
    query="shop.db has a table orders. What is the revenue, in EUR, of all orders that were not cancelled?",
    ground_truth="186.00 EUR",
    prepare=lambda workplace: workplace.create_database("shop.db", SHOP),
    check=_check_revenue,
)


def _guess_columns(agent: Agent) -> str:
    def query(thought: str, sql: str, *, fails: bool = False) -> None:
        agent.does(thought, "sqlite", fails=fails, database="shop.db", sql=sql)

    query("Revenue is the sum of the prices.", "SELECT SUM(price) FROM orders WHERE status <> 'cancelled'", fails=True)
    query("Then it is called amount.", "SELECT SUM(amount) FROM orders WHERE status <> 'cancelled'", fails=True)
    query("Or total.", "SELECT SUM(total) FROM orders WHERE status <> 'cancelled'", fails=True)
    query("I look at one row to see the names.", "SELECT * FROM orders LIMIT 1")
    query(
        "The column is unit_price_cents.",
        "SELECT SUM(unit_price_cents) / 100.0 AS revenue FROM orders WHERE status <> 'cancelled'",
    )
    return "The revenue of the orders that were not cancelled is 151.50 EUR."


def _read_schema(agent: Agent) -> str:
    def query(thought: str, sql: str, *, fails: bool = False) -> None:
        agent.does(thought, "sqlite", fails=fails, database="shop.db", sql=sql)

    query("Revenue is the sum of the prices.", "SELECT SUM(price) FROM orders WHERE status <> 'cancelled'", fails=True)
    query("I should not guess names. The schema tells them.", "SELECT sql FROM sqlite_master WHERE name = 'orders'")
    query(
        "Prices are per unit and in cents, so I need quantity * unit_price_cents. Which values does status take?",
        "SELECT status, COUNT(*) AS orders FROM orders GROUP BY status",
    )
    query(
        "It is spelled 'canceled', with one l; my first filter would have excluded nothing.",
        "SELECT SUM(quantity * unit_price_cents) / 100.0 AS revenue FROM orders WHERE status <> 'canceled'",
    )
    return "The revenue of the orders that were not cancelled is 186.00 EUR."


LOAD_PRICES = """\
import sqlite3

PRICES = {"lamp": 4200, "desk": 31000}

connection = sqlite3.connect("prices.db", timeout=0)
with connection:
    for name, cents in PRICES.items():
        connection.execute("INSERT INTO prices VALUES (?, ?)", (name, cents))
print(f"loaded {len(PRICES)} prices")
"""


def _prepare_price_list(workplace: Workplace) -> None:
    workplace.create_database(
        "prices.db", "CREATE TABLE prices (name TEXT, cents INTEGER); INSERT INTO prices VALUES ('chair', 8000);"
    )
    workplace.write("load_prices.py", LOAD_PRICES)


def _check_prices(workplace: Workplace, _: str) -> Verdict:
    sql = "SELECT name, cents FROM prices ORDER BY name"
    rows = workplace.rows("prices.db", sql)
    passed = rows == [("chair", 8400), ("desk", 31000), ("lamp", 4200)]
    return Verdict(passed, "chair costs 8400; desk and lamp are loaded once", f"{sql}: {rows}")


PRICES = Task(
    id="sqlite-prices",
    query="In prices.db raise the price of the chair by 5 %, then load the new prices with `python load_prices.py`.",
    ground_truth="chair 8400, desk 31000, lamp 4200",
    prepare=_prepare_price_list,
    check=_check_prices,
)


def _commit_before_script(agent: Agent) -> str:
    update = "UPDATE prices SET cents = cents * 105 / 100 WHERE name = 'chair'"
    load = "python load_prices.py"
    agent.does(
        "I change prices inside a transaction, to be safe.", "sqlite", database="prices.db", sql="BEGIN IMMEDIATE"
    )
    agent.does("Five percent more for the chair.", "sqlite", database="prices.db", sql=update)
    agent.does("Next the new prices.", "python", fails=True, command=load)
    agent.does("Locked. Perhaps somebody writes just now; once more.", "python", fails=True, command=load)
    agent.does(
        "Nobody else is here: the lock is mine. A second process cannot write while my transaction is open.",
        "sqlite",
        database="prices.db",
        sql="COMMIT",
    )
    agent.does("Now the script can write.", "python", command=load)
    return "Both done after I ended my own transaction: chair 8400, desk 31000, lamp 4200."


MEMBERS = """
CREATE TABLE members (email TEXT PRIMARY KEY, name TEXT NOT NULL, points INTEGER NOT NULL DEFAULT 0);
INSERT INTO members VALUES ('sato@example.jp', '佐藤', 1200), ('ito@example.jp', '伊藤', 300);
"""
NEW_MEMBERS = "email,name\nsato@example.jp,佐藤 花子\nkato@example.jp,加藤 健\n"
NEW_ROWS = "(email, name) VALUES ('sato@example.jp', '佐藤 花子'), ('kato@example.jp', '加藤 健')"


def _prepare_member_list(workplace: Workplace) -> None:
    workplace.create_database("members.db", MEMBERS)
    workplace.write("新会員.csv", NEW_MEMBERS)


def _check_points(workplace: Workplace, _: str) -> Verdict:
    sql = "SELECT name, points FROM members ORDER BY email"
    rows = workplace.rows("members.db", sql)
    passed = rows == [("伊藤", 300), ("加藤 健", 0), ("佐藤 花子", 1200)]
    return Verdict(passed, "会員は3名で、佐藤 花子のポイントは1200のまま", f"{sql}: {rows}")


IMPORT_MEMBERS = Task(
    id="sqlite-import-members-ja",
    query="新会員.csv を members.db の members 表に取り込んでください。"
    "既存会員は氏名だけ更新し、ポイントは変えないこと。",
    ground_truth="佐藤 花子さんのポイントは1200のまま",
    prepare=_prepare_member_list,
    check=_check_points,
)


def _replace_row(agent: Agent) -> str:
    agent.does("まず取り込むファイルを読みます。", "read_file", path="新会員.csv")
    agent.does(
        "2件あります。追加します。", "sqlite", fails=True, database="members.db", sql=f"INSERT INTO members {NEW_ROWS}"
    )
    agent.does(
        "重複する email があります。OR REPLACE なら上書きできます。",
        "sqlite",
        database="members.db",
        sql=f"INSERT OR REPLACE INTO members {NEW_ROWS}",
    )
    agent.does("件数を確認します。", "sqlite", database="members.db", sql="SELECT COUNT(*) AS members FROM members")
    return "取り込みが終わりました。members 表は3名になりました。"


def _update_on_conflict(agent: Agent) -> str:
    agent.does("まず取り込むファイルを読みます。", "read_file", path="新会員.csv")
    agent.does(
        "2件あります。追加します。", "sqlite", fails=True, database="members.db", sql=f"INSERT INTO members {NEW_ROWS}"
    )
    agent.does(
        "email が重複しています。上書きする前に、既存の行を見ます。",
        "sqlite",
        database="members.db",
        sql="SELECT * FROM members",
    )
    agent.does(
        "OR REPLACE は行を作り直し、points を 0 に戻してしまいます。ON CONFLICT で氏名だけ更新します。",
        "sqlite",
        database="members.db",
        sql=f"INSERT INTO members {NEW_ROWS} ON CONFLICT (email) DO UPDATE SET name = excluded.name",
    )
    agent.does("結果を確認します。", "sqlite", database="members.db", sql="SELECT * FROM members ORDER BY email")
    return "取り込みました。加藤 健さんを追加し、佐藤 花子さんのポイントは1200のままです。"


SCRIPTS = (
    Script("sqlite-column-guessed", REVENUE, _guess_columns),
    Script("sqlite-column-from-schema", REVENUE, _read_schema),
    Script("sqlite-locked-by-own-transaction", PRICES, _commit_before_script),
    Script("sqlite-unique-replaced-ja", IMPORT_MEMBERS, _replace_row),
    Script("sqlite-unique-upsert-ja", IMPORT_MEMBERS, _update_on_conflict),
)
