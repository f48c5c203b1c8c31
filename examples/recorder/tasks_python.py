"""Python tasks: an exception that is swallowed or understood, a relative import, and a Shift_JIS file (in Japanese)."""

from examples.recorder.agent import Agent
from examples.recorder.task import Script, Task, Verdict
from examples.recorder.workplace import Workplace

INVOICES = """\
[
  {"id": "A1", "net": 100.0, "vat": 0.2},
  {"id": "A2", "net": 50.0},
  {"id": "A3", "net": 200.0, "vat": "20%"}
]
"""
REPORT = """\
import json

total = 0.0
for invoice in json.load(open("invoices.json")):
    total += invoice["net"] * (1 + invoice["vat"])
print(f"total {total:.2f}")
"""
REPORT_SWALLOWING = """\
import json

total = 0.0
for invoice in json.load(open("invoices.json")):
    try:
        total += invoice["net"] * (1 + invoice["vat"])
    except (KeyError, TypeError):
        continue
print(f"total {total:.2f}")
"""
REPORT_EXEMPT = """\
import json

total = 0.0
for invoice in json.load(open("invoices.json")):
    total += invoice["net"] * (1 + invoice.get("vat", 0.0))
print(f"total {total:.2f}")
"""
REPORT_RATES = """\
import json


def rate(vat):
    return float(vat.rstrip("%")) / 100 if isinstance(vat, str) else vat


total = 0.0
for invoice in json.load(open("invoices.json")):
    total += invoice["net"] * (1 + rate(invoice.get("vat", 0.0)))
print(f"total {total:.2f}")
"""


def _prepare_report(workplace: Workplace) -> None:
    workplace.write("invoices.json", INVOICES)
    workplace.write("report.py", REPORT)


def _check_report(workplace: Workplace, _: str) -> Verdict:
    output = workplace.run("python report.py").output
    return Verdict(output == "total 410.00", "report.py prints total 410.00", f"$ python report.py\n{output}")


VAT_REPORT = Task(
    id="python-vat-report",
    query="`python report.py` crashes. Make it print the total of invoices.json with VAT. No vat field means exempt.",
    ground_truth="total 410.00",
    prepare=_prepare_report,
    check=_check_report,
)


def _swallow_exception(agent: Agent) -> str:
    run = "python report.py"
    agent.does("I reproduce the crash.", "python", fails=True, command=run)
    agent.does("Which code is it?", "read_file", path="report.py")
    agent.does(
        "Some invoices are malformed. I skip whatever raises.",
        "write_file",
        path="report.py",
        content=REPORT_SWALLOWING,
    )
    agent.does("Does it still crash?", "python", command=run)
    return "report.py no longer crashes. It prints total 120.00."


def _read_rows_first(agent: Agent) -> str:
    run = "python report.py"
    agent.does("I reproduce the crash.", "python", fails=True, command=run)
    agent.does(
        "KeyError: 'vat'. Exempt invoices have none, that is a rate of 0.",
        "write_file",
        path="report.py",
        content=REPORT_EXEMPT,
    )
    agent.does("Again.", "python", fails=True, command=run)
    agent.does(
        "One step further, another error: some vat is text. I read the rows instead of guessing.",
        "read_file",
        path="invoices.json",
    )
    agent.does(
        "A rate is 0.2, '20%' or absent. I convert it in one place and skip no row.",
        "write_file",
        path="report.py",
        content=REPORT_RATES,
    )
    agent.does("Once more, and I compare: 120 + 50 + 240 = 410.", "python", command=run)
    return "report.py treats a missing vat as exempt and reads '20%' as 0.2. It prints total 410.00."


MONEY = 'def parse(text):\n    return round(float(text.replace(",", "")) * 100)\n'
CLI = "from .money import parse\n\nprint(f\"{parse('1,250.50')} cents\")\n"
CLI_ABSOLUTE = CLI.replace("from .money", "from money")
CHECK_LEDGER = "import ledger.cli\n"


def _prepare_package(workplace: Workplace) -> None:
    workplace.write("ledger/__init__.py", "")
    workplace.write("ledger/money.py", MONEY)
    workplace.write("ledger/cli.py", CLI)
    workplace.write("check_ledger.py", CHECK_LEDGER)


def _check_run_and_import(workplace: Workplace, answer: str) -> Verdict:
    as_module = workplace.run("python -m ledger.cli")
    imported = workplace.run("python check_ledger.py")
    passed = as_module.output == imported.output == "125050 cents" and "python -m ledger.cli" in answer
    evidence = f"$ python -m ledger.cli\n{as_module.output}\n$ python check_ledger.py\n{imported.output}"
    return Verdict(passed, "the command of the answer and check_ledger.py both print 125050 cents", evidence)


RUN_PACKAGE = Task(
    id="python-run-package",
    query="Run ledger/cli.py and tell me the command and its output. check_ledger.py imports it and must keep working.",
    ground_truth="`python -m ledger.cli` prints 125050 cents",
    prepare=_prepare_package,
    check=_check_run_and_import,
)


def _run_as_module(agent: Agent) -> str:
    check = "python check_ledger.py"
    agent.does("I run the file.", "python", fails=True, command="python ledger/cli.py")
    agent.does(
        "The relative import is what fails, so I make it absolute.",
        "write_file",
        path="ledger/cli.py",
        content=CLI_ABSOLUTE,
    )
    agent.does("Does the importing script still work?", "python", fails=True, command=check)
    agent.does(
        "Now the package is broken. The code was right, my command was wrong: I take the change back.",
        "write_file",
        path="ledger/cli.py",
        content=CLI,
    )
    agent.does("A file of a package runs as a module, from the folder above.", "python", command="python -m ledger.cli")
    agent.does("And the script that imports it.", "python", command=check)
    return "`python -m ledger.cli` prints 125050 cents. Nothing had to be changed; check_ledger.py still works."


SALES = "店舗,売上\n渋谷,1200\n梅田,800\n"
SUM_UP = """\
import csv
from pathlib import Path

text = Path("売上.csv").read_bytes().decode("utf-8")
print("合計", sum(int(row["売上"]) for row in csv.DictReader(text.splitlines())))
"""
SUM_UP_IGNORING = SUM_UP.replace('decode("utf-8")', 'decode("utf-8", errors="ignore")')
SUM_UP_CP932 = SUM_UP.replace('decode("utf-8")', 'decode("cp932")')


def _prepare_sales(workplace: Workplace) -> None:
    workplace.write("売上.csv", SALES, encoding="cp932")
    workplace.write("集計.py", SUM_UP)


def _check_sum(workplace: Workplace, answer: str) -> Verdict:
    output = workplace.run("python 集計.py").output
    passed = output == "合計 2000" and output in answer
    return Verdict(passed, "集計.py が「合計 2000」を出力し、回答にもある", f"$ python 集計.py\n{output}")


SUM_SALES = Task(
    id="python-sum-sales-ja",
    query="`python 集計.py` がエラーになります。売上.csv は変更せずに直して、合計を教えてください。",
    ground_truth="合計 2000",
    prepare=_prepare_sales,
    check=_check_sum,
)


def _decode_cp932(agent: Agent) -> str:
    run = "python 集計.py"
    agent.does("まずエラーを再現します。", "python", fails=True, command=run)
    agent.does(
        "UTF-8 として読めないバイトがあります。無視して読んでみます。",
        "write_file",
        path="集計.py",
        content=SUM_UP_IGNORING,
    )
    agent.does("もう一度実行します。", "python", fails=True, command=run)
    agent.does(
        "文字が失われ、見出し「売上」まで消えました。日本語の CSV は Shift_JIS が多いので cp932 で読みます。",
        "write_file",
        path="集計.py",
        content=SUM_UP_CP932,
    )
    agent.does("実行します。", "python", command=run)
    return '売上.csv は Shift_JIS(cp932)でした。decode("cp932") に直し、結果は「合計 2000」です。'


SCRIPTS = (
    Script("python-exception-swallowed", VAT_REPORT, _swallow_exception),
    Script("python-exception-understood", VAT_REPORT, _read_rows_first),
    Script("python-relative-import", RUN_PACKAGE, _run_as_module),
    Script("python-shift-jis-ja", SUM_SALES, _decode_cp932),
)
