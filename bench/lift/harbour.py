"""The second world: a harbour. Other words, other kinds of arguments, command lines."""

from __future__ import annotations

import random

from hansei.client.lift.world import Convention, MadeUpWorld

SHIPS = ("Aurora", "Borealis", "Calypso", "Dolphin", "Estrella", "Fjord", "Galene")


def _draw_values(chance: random.Random) -> dict[str, str]:
    hour, minute = chance.randint(4, 21), chance.choice([0, 10, 20, 30, 45])
    metres = chance.randint(40, 140)
    degrees, minutes = chance.randint(51, 58), chance.randint(10, 59)
    owner, serial, check = chance.choice(["MSKU", "TCLU", "GESU"]), chance.randint(100000, 999999), chance.randint(0, 9)
    return {
        "ship": f"MV {chance.choice(SHIPS)}",
        "imo": str(chance.randint(9000000, 9999999)),
        "berth": f"B{chance.randint(10, 40)}",
        "draught_m": f"{metres / 10:.1f}",
        "draught_dm": str(metres),
        "clock": f"{hour:02}:{minute:02}",
        "minutes": str(hour * 60 + minute),
        "box": f"{owner}{serial}{check}",
        "box_parts": f"{owner}-{serial}-{check}",
        "tonnes": str(chance.randint(20, 400)),
        "lat": f"{degrees}.{minutes}",
        "lat_dm": f"{degrees}d{minutes}m",
        "gate": f"gate-{chance.randint(1, 9)}",
        "crane": f"K{chance.randint(1, 9)}",
    }


HARBOUR = MadeUpWorld(
    "harbour",
    (
        Convention(
            "allocateBerth", "error states it", "allocateBerth: draught is a whole number of decimetres.",
            ("{ship} comes in with a draught of {draught_m} m. Give her berth {berth}.",
             "Berth {berth} for {ship}, drawing {draught_m} metres.",
             "Put {ship} ({draught_m} m deep) at {berth}.", "{ship} goes to {berth}; she draws {draught_m} m."),
            (("allocateBerth", {"vessel": '"{ship}"', "berth": '"{berth}"', "draught": "{draught_dm}"}),),
            error="draught: expected a whole number of decimetres", stated=r"decimetres", argument="draught",
            right=r"\d{2,3}", wrong=("{draught_m}", '"{draught_m} m"'),
        ),
        Convention(
            "cranectl", "bare code", "cranectl lift needs the option --interlock.",
            ("Lift {box} with crane {crane}.", "Use crane {crane} to lift container {box}.",
             "Crane {crane} should hoist {box}.", "Get {box} up with {crane}."),
            (("shell", {"command": '"cranectl lift {crane} {box} --interlock"'}),),
            error="cranectl: exit code 17", stated=r"--interlock", argument="command",
            wrong=('"cranectl lift {crane} {box}"', '"cranectl lift {crane} {box} --force"'),
        ),
        Convention(
            "pilotx", "bare code", "Request pilots with pilotx, not with pilot.",
            ("Request a pilot for {ship}.", "{ship} needs a pilot.", "Get {ship} someone to pilot her in.",
             "A pilot should board {ship}."),
            (("shell", {"command": '"pilotx request {imo}"'}),),
            error="exit status 3", stated=r"\bpilotx\b", argument="command",
            wrong=('"pilot request {imo}"',),
        ),
        Convention(
            "scheduleTug", "no error", "scheduleTug: start is minutes since midnight, as in 390.",
            ("Schedule a tug for {ship} at {clock}.", "A tug at {clock} for {ship}, please.",
             "{ship} wants towing at {clock}.", "Tow {ship} out at {clock}."),
            (("scheduleTug", {"vessel": '"{ship}"', "window": '{"start": {minutes}, "tugs": <1|2>}'}),),
            stated=r"since midnight", argument="window", right=r"\d{3,4}",
            wrong=('{"start": "{clock}", "tugs": <1|2>}',),
        ),
        Convention(
            "declareCargo", "no error", "declareCargo: hazard is IMO-0 for harmless cargo.",
            ("Declare {tonnes} t of grain on {ship}.", "{ship} carries {tonnes} tonnes of grain; declare it.",
             "Make the declaration for {ship}: grain, {tonnes} t.", "{ship}'s load: {tonnes} t of grain."),
            (("declareCargo", {"vessel": '"{ship}"', "goods": '["corn"]', "hazard": '"IMO-0"', "tonnes": "{tonnes}"}),),
            stated=r"IMO-0", argument="hazard", right="IMO-0", wrong=("false", '"none"'),
        ),
        Convention(
            "issueClearance", "bare code", "issueClearance: call syncRegistry first.",
            ("Clear {ship} (IMO {imo}) for departure.", "Issue the clearance of {imo}.",
             "{ship}, IMO {imo}, wants to sail; let her.", "Give IMO {imo} leave to depart."),
            (("syncRegistry", {"imo": "{imo}"}), ("issueClearance", {"imo": "{imo}"})),
            error="NAK 7", also="syncRegistry",
        ),
        Convention(
            "weighContainer", "bare code", "weighContainer: write the box with dashes, as in MSKU-123456-7.",
            ("Weigh container {box}.", "Put {box} on the scales.", "What does {box} weigh? Weigh it.",
             "Take the weight of box {box}."),
            (("weighContainer", {"box": '"{box_parts}"', "scale": "<1|2|3>"}),),
            error="C12", stated=r"with dashes", argument="box", right=r"[A-Z]{4}-\d{6}-\d",
            wrong=('"{box}"', '"box {box}"'),
        ),
        Convention(
            "bunkerFuel", "no error", "bunkerFuel: the grade is RMG380.",
            ("Bunker {tonnes} t of heavy fuel for {ship}.", "Fuel {ship} with {tonnes} tonnes of heavy oil.",
             "{ship} takes {tonnes} t heavy fuel oil.", "Fill {ship} up: {tonnes} t, heavy oil."),
            (("bunkerFuel", {"vessel": '"{ship}"', "grade": '"RMG380"', "tonnes": "{tonnes}"}),),
            stated=r"RMG380", argument="grade", right="RMG380", wrong=('"heavy"', '"HFO"'),
        ),
        Convention(
            "logPosition", "error states it", "logPosition: latitude is degrees and minutes, as in 54d12m.",
            ("Log {ship} at latitude {lat}.", "Record the position of {ship}: {lat} north.",
             "{ship} is at {lat} N, write it down.", "Note where {ship} is, {lat} north."),
            (("logPosition", {"vessel": '"{ship}"', "latitude": '"{lat_dm}"'}),),
            error="latitude: give degrees and minutes, e.g. 54d12m", stated=r"degrees and minutes", argument="latitude",
            right=r"\d\dd\d\dm", wrong=("{lat}", '"{lat}N"'),
        ),
        Convention(
            "quarantineVessel", "no error", "quarantineVessel: call notifyHealth too.",
            ("Put {ship} under quarantine.", "Quarantine {ship}.", "Nobody may leave {ship}: isolate her.",
             "{ship} has sick crew, keep her isolated."),
            (("quarantineVessel", {"vessel": '"{ship}"', "days": "<7|14>"}), ("notifyHealth", {"vessel": '"{ship}"'})),
            also="notifyHealth",
        ),
        Convention(
            "invoiceDues", "bare code", "invoiceDues: the currency is XDR.",
            ("Invoice {ship} for her harbour dues.", "Bill {ship} the dues.", "{ship} has to pay dues; write the bill.",
             "Charge {ship} what she owes the harbour."),
            (("invoiceDues", {"vessel": '"{ship}"', "currency": '"XDR"'}),),
            error="E_CUR 2", stated=r"\bXDR\b", argument="currency", right="XDR", wrong=('"EUR"', '"USD"', '"euro"'),
        ),
        Convention(
            "openGate", "error states it", "openGate: call requestToken first.",
            ("Open {gate} for the truck with {box}.", "Let the truck with {box} in by {gate}.",
             "A truck waits at {gate} with {box}.", "{box} leaves through {gate}; open up."),
            (("requestToken", {"gate": '"{gate}"'}), ("openGate", {"gate": '"{gate}"', "lane": "<1|2>"})),
            error="no token; requestToken must be called before", also="requestToken",
        ),
    ),
    (("getVessel", {"name": '"{ship}"'}), ("listBerths", {}), ("readTide", {"at": '"{clock}"'}),
     ("findBox", {"number": '"{box}"'}), ("radio", {"text": '"<hello|standby|please confirm|over>"'})),
    _draw_values,
)  # fmt: skip
