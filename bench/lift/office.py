"""The first world: the back office of a town. Rules are tuned on it."""

from __future__ import annotations

import random

from hansei.client.lift.world import Convention, MadeUpWorld

FIRST = ("Jane", "Omar", "Lena", "Ivo", "Ruth", "Sven", "Aiko", "Tomas")
LAST = ("Doe", "Haddad", "Kraus", "Petrov", "Lindt", "Berg", "Mori", "Novak")
NOTE = '"<as asked|on request|see the file|asked by phone|urgent, please|first reminder>"'


def _draw_values(chance: random.Random) -> dict[str, str]:
    first, last = chance.choice(FIRST), chance.choice(LAST)
    euros, cents = chance.randint(5, 900), chance.choice([0, 25, 50, 95])
    return {
        "account": f"A-{chance.randint(100, 999)}",
        "case": f"C-{chance.randint(1000, 9999)}",
        "plot": f"plot {chance.randint(1, 90)}/{chance.randint(1, 9)}",
        "meter": f"M{chance.randint(100000, 999999)}",
        "euros": f"{euros}.{cents:02}",
        "cents": str(euros * 100 + cents),
        "name": f"{first} {last}",
        "holder": f"{last}, {first}".upper(),
        "day": f"2031-0{chance.randint(1, 9)}-{chance.randint(10, 28)}",
        "week": f"2031-W{chance.randint(10, 50)}-{chance.randint(1, 5)}",
        "quarter": str(chance.randint(1, 4)),
        "room": chance.choice(["Oak", "Elm", "Birch", "Ash"]),
        "street": f"{chance.choice(['Mill', 'Church', 'Station', 'Canal'])} Road {chance.randint(1, 80)}",
        "price": f"0.{chance.randint(20, 48)}",
        "size": str(chance.randint(2, 9)),
    }


OFFICE = MadeUpWorld(
    "office",
    (
        Convention(
            "pay_fee", "bare code", "pay_fee: give the amount in cents, without a decimal point, as in 4500.",
            ("Settle the fee of {euros} euros on account {account}.", "Please pay the fee of {euros} for {account}.",
             "{account} owes a charge of {euros}; pay it.", "Clear the {euros} euro fee, account {account}."),
            (("pay_fee", {"account": '"{account}"', "amount": '"{cents}"', "note": NOTE}),),
            error="E41", stated=r"\bin cents\b|cents, ", argument="amount", right=r"\d{3,6}", wrong=('"{euros}"',),
        ),
        Convention(
            "book_room", "error states it", "book_room: give the day as ISO week and weekday, as in 2031-W05-3.",
            ("Book room {room} for the hearing on {day}.", "Reserve the {room} room on {day}, please.",
             "We need {room} for a meeting, {day}.", "Get us room {room} on the {day} for a talk."),
            (("book_room", {"room": '"{room}"', "day": '"{week}"', "hours": "{size}"}),),
            error="day must be an ISO week date such as 2031-W05-3", stated=r"ISO week",
            argument="day", right=r"\d{4}-W\d\d-\d", wrong=('"{day}"',),
        ),
        Convention(
            "assign_case", "bare code", "assign_case: the unit of billing is Q7.",
            ("Give case {case} to the billing people.", "Hand {case} over to billing.",
             "Case {case} belongs to billing; pass it on.", "Let the billing department handle {case}."),
            (("assign_case", {"case": '"{case}"', "unit": '"Q7"'}),),
            error="rejected (U19)", stated=r"\bQ7\b", argument="unit", right="Q7",
            wrong=('"billing"', '"Billing Department"'),
        ),
        Convention(
            "send_notice", "no error", "send_notice: the channel must be registered.",
            ("Send the parties of {case} a notice of the decision.", "Notify the parties in {case} of the decision.",
             "The decision in {case} has to reach the parties; tell them.", "Let the parties of case {case} know."),
            (("send_notice", {"case": '"{case}"', "channel": '"registered"', "text": NOTE}),),
            stated=r"channel.{0,60}registered", argument="channel", right="registered", wrong=('"email"', '"letter"'),
        ),
        Convention(
            "close_case", "bare code", "close_case: call freeze_ledger first.",
            ("Close case {case}.", "Case {case} is done, please close it.",
             "Shut the file on {case}.", "{case} can be closed now."),
            (("freeze_ledger", {"case": '"{case}"'}), ("close_case", {"case": '"{case}"', "remark": NOTE})),
            error="409-B", also="freeze_ledger",
        ),
        Convention(
            "file_report", "no error", "file_report: give the period as fiscal year and quarter, as in FY31Q2.",
            ("File the report on {case} for quarter {quarter} of 2031.", "Report {case} for Q{quarter} 2031.",
             "The quarterly report of {case} is due (quarter {quarter}, 2031).", "Hand in {case}'s Q{quarter} report."),
            (("file_report", {"case": '"{case}"', "period": '"FY31Q{quarter}"', "remark": NOTE}),),
            stated=r"fiscal", argument="period", right=r"FY31Q\d", wrong=('"2031-Q{quarter}"', '"Q{quarter}/2031"'),
        ),
        Convention(
            "grant_permit", "no error", "grant_permit: call publish_grant too.",
            ("Grant a building permit for {plot}.", "Approve the permit for {plot}.",
             "{plot} may be built on; issue the permit.", "Issue {name} the permit for {plot}."),
            (("grant_permit", {"plot": '"{plot}"', "class": '"<A|B>"'}), ("publish_grant", {"plot": '"{plot}"'})),
            also="publish_grant",
        ),
        Convention(
            "set_tariff", "error states it", "set_tariff: the rate carries its unit, as in 0.31/kWh.",
            ("Set the tariff of meter {meter} to {price}.", "Meter {meter} gets the rate {price} from now on.",
             "Charge {price} on meter {meter}.", "Change what {meter} pays to {price}."),
            (("set_tariff", {"meter": '"{meter}"', "rate": '"{price}/kWh"'}),),
            error="the rate must carry its unit, such as 0.30/kWh", stated=r"carr(?:y|ies) its unit", argument="rate",
            right=r"0\.\d\d/kWh", wrong=('"{price}"', "{price}"),
        ),
        Convention(
            "order_meter", "error states it", "order_meter: the model is a catalogue number that begins with MX-.",
            ("Order a size {size} meter for {street}.", "{street} needs a new meter of size {size}; order it.",
             "Get a meter (size {size}) delivered to {street}.", "Buy {street} a meter, size {size}."),
            (("order_meter", {"address": '"{street}"', "model": '"MX-{size}00"'}),),
            error="unknown model: catalogue numbers begin with MX-", stated=r"begins? with MX-", argument="model",
            right=r"MX-\d00", wrong=('"size {size}"',),
        ),
        Convention(
            "transfer_plot", "bare code", "transfer_plot: give the holder as SURNAME, FIRST NAME in capitals.",
            ("Transfer {plot} to {name}.", "Make {name} the owner of {plot}.",
             "{name} bought {plot}; record it.", "{plot} now belongs to {name}."),
            (("transfer_plot", {"plot": '"{plot}"', "holder": '"{holder}"', "remark": NOTE}),),
            error="ZX81", stated=r"surname", argument="holder", right=r"[A-Z]+, [A-Z]+", wrong=('"{name}"',),
        ),
        Convention(
            "inspect_site", "error states it", "inspect_site: call reserve_slot first.",
            ("Have {plot} inspected.", "Send an inspector to {plot}.",
             "Someone should inspect {plot}.", "{plot} is due for an inspection."),
            (("reserve_slot", {"plot": '"{plot}"'}), ("inspect_site", {"plot": '"{plot}"'})),
            error="no slot is reserved; call reserve_slot first", also="reserve_slot",
        ),
        Convention(
            "refund", "no error", "refund: the reason is the code R-3.",
            ("Refund {euros} to account {account}; they paid twice.", "{account} paid twice, give back {euros}.",
             "Return {euros} to {account}, a double payment.", "Reimburse {account}: {euros} was paid double."),
            (("refund", {"account": '"{account}"', "sum": '"{euros}"', "reason": '"R-3"'}),),
            stated=r"R-3", argument="reason", right="R-3", wrong=('"overpaid"', '"duplicate payment"', '"paid twice"'),
        ),
    ),
    (("get_account", {"id": '"{account}"'}), ("get_case", {"id": '"{case}"'}), ("find_plot", {"text": '"{plot}"'}),
     ("list_units", {}), ("add_note", {"case": '"{case}"', "text": NOTE})),
    _draw_values,
)  # fmt: skip
