"""The fourth world: a print shop, where four of eight conventions are values that depend on another argument.

It was written after the laboratory had shown that no rule learns such values, and before a rule was added.
"""

from __future__ import annotations

import random

from hansei.client.lift.world import Convention, MadeUpWorld

CARTRIDGES = {"cyan": "410", "magenta": "377", "black": "902"}
MARGINS = {"A3": "8900", "A4": "6350", "A5": "4200"}
CARRIERS = {"Norway": "NORDX", "Spain": "IBERLOG", "Ireland": "EMERALD"}
TIERS = {"true": "K1", "false": "K9"}
CUSTOMERS = {"true": "returning", "false": "new"}


def _draw_values(chance: random.Random) -> dict[str, str]:
    hue, other_hue = chance.sample(sorted(CARTRIDGES), 2)
    size, other_size = chance.sample(sorted(MARGINS), 2)
    country, other_country = chance.sample(sorted(CARRIERS), 2)
    flag, other_flag = chance.sample(sorted(TIERS), 2)
    tenths = chance.randint(2, 9)
    return {
        "job": f"j{chance.randint(100, 999)}",
        "press": chance.choice(["Heidi", "Koenig", "Roland"]),
        "hue": hue, "cartridge": CARTRIDGES[hue], "other_cartridge": CARTRIDGES[other_hue],
        "size": size, "margin": MARGINS[size], "other_margin": MARGINS[other_size],
        "country": country, "carrier": CARRIERS[country], "other_carrier": CARRIERS[other_country],
        "returning": flag, "customer": CUSTOMERS[flag], "tier": TIERS[flag], "other_tier": TIERS[other_flag],
        "copies": str(chance.randint(20, 800)),
        "days": str(chance.randint(3, 40)),
        "depth": f"0.{tenths}",
        "micrometres": f"{tenths}00",
    }  # fmt: skip


PRINT_SHOP = MadeUpWorld(
    "print-shop",
    (
        Convention(
            "mix-ink", "bare code", "mix-ink: cartridge 410 for cyan, 377 for magenta, 902 for black.",
            ("Mix {hue} ink for {press}.", "{press} runs out of {hue}; mix some.",
             "Prepare {hue} for {press}.", "We need more {hue} on {press}."),
            (("mix-ink", {"press": '"{press}"', "ink": '{"hue": "{hue}"}', "cartridge": "{cartridge}"}),),
            error="M-09", argument="cartridge", depends_on=("hue", CARTRIDGES), wrong=("{other_cartridge}",),
        ),
        Convention(
            "cut-paper", "no error", "cut-paper: the margin is 8900 for A3, 6350 for A4, 4200 for A5.",
            ("Cut the paper of {job} to {size}.", "Trim {job}, format {size}.",
             "{job} has to come off the machine as {size}.", "Make {size} sheets out of {job}."),
            (("cut-paper", {"job": '"{job}"', "size": '"{size}"', "margin": "{margin}"}),),
            argument="margin", depends_on=("size", MARGINS), wrong=("{other_margin}", "0"),
        ),
        Convention(
            "ship-parcel", "error states it", "ship-parcel: NORDX for Norway, IBERLOG for Spain, EMERALD for Ireland.",
            ("Ship {job} to {country}.", "Send {job} off, to {country}.",
             "{job} goes to a customer in {country}.", "Deliver {job}: {country}."),
            (("ship-parcel", {"to": '{"country": "{country}", "floor": <1|2>}', "carrier": '"{carrier}"'}),),
            error="parcels for {country} go with {carrier}", argument="carrier", depends_on=("country", CARRIERS),
            wrong=('"{other_carrier}"', '"cheapest"'),
        ),
        Convention(
            "quote-price", "bare code", "quote-price: tier K1 for returning customers (true), K9 for new ones (false).",
            ("Quote a price for {copies} copies to a {customer} customer.",
             "A {customer} customer asks for {copies} copies; quote it.",
             "What do {copies} copies cost? It is a {customer} customer.",
             "{copies} copies, {customer} customer: name the price."),
            (("quote-price", {"copies": "{copies}", "returning": "{returning}", "tier": '"{tier}"'}),),
            error="tariff error 12", argument="tier", depends_on=("returning", TIERS), wrong=('"{other_tier}"',),
        ),
        Convention(
            "approve-proof", "bare code", "approve-proof: call lock-file first.",
            ("Approve the proof of {job}.", "The proof of {job} is fine, approve it.",
             "{job} looks good, go ahead.", "Give the go for {job}."),
            (("lock-file", {"job": '"{job}"'}), ("approve-proof", {"job": '"{job}"', "by": '"<me|boss>"'})),
            error="0x2F", also="lock-file",
        ),
        Convention(
            "set-deadline", "no error", "set-deadline: due counts days from today, as in D+12.",
            ("{job} must be ready in {days} days.", "Set the deadline of {job}: {days} days from now.",
             "The customer wants {job} within {days} days.", "Finish {job} in {days} days, note that."),
            (("set-deadline", {"job": '"{job}"', "due": '"D+{days}"'}),),
            stated=r"\bD\+\d", argument="due", right=r"D\+\d+", wrong=('"{days} days"', "{days}"),
        ),
        Convention(
            "bind-book", "no error", "bind-book: the glue is PUR.",
            ("Bind {copies} copies of {job}.", "{job} shall become {copies} bound books.",
             "Make books of {job}, {copies} of them.", "{job}: glue {copies} books."),
            (("bind-book", {"job": '"{job}"', "count": "{copies}", "glue": '["PUR"]', "side": '"<left|top>"'}),),
            stated=r"\bPUR\b", argument="glue", right="PUR", wrong=('["hotmelt"]', '["EVA"]'),
        ),
        Convention(
            "emboss", "error states it", "emboss: depth is a whole number of micrometres.",
            ("Emboss the cover of {job} {depth} mm deep.", "{job} gets a cover with {depth} mm relief.",
             "Press the title into {job}, {depth} mm.", "A {depth} mm deep title for {job}."),
            (("emboss", {"job": '"{job}"', "tool": '{"die": <4|6>, "heat": true}', "depth": "{micrometres}"}),),
            error="depth is not a whole number of micrometres", stated=r"micrometres", argument="depth",
            right=r"\d00", wrong=("{depth}", '"{depth} mm"'),
        ),
    ),
    (("get-job", {"id": '"{job}"'}), ("list-presses", {}), ("read-mail", {"about": '"{job}"'}),
     ("log", {"text": '"<started|later|asked the customer>"'})),
    _draw_values,
)  # fmt: skip
