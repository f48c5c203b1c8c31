"""The third world: the laboratory of a hospital, with lists, nested values, dates, units, and a value that depends on
another argument. Its author had not read the rules of hansei, and it has not changed since its first measurement.
"""

from __future__ import annotations

import random
from datetime import date

from hansei.client.lift.world import Convention, MadeUpWorld

SHELVES = {"plasma": "F80", "serum": "C04", "urine": "R12"}
TESTS = {"glucose": "GLU", "potassium": "POT", "creatinine": "CRE", "lactate": "LAC", "ferritin": "FER"}


def _draw_values(chance: random.Random) -> dict[str, str]:
    first, second = chance.sample(sorted(TESTS), 2)
    material, other = chance.sample(sorted(SHELVES), 2)
    day = date(2032, chance.randint(1, 12), chance.randint(1, 28))
    hour, minute = chance.randint(7, 19), chance.choice([0, 15, 30, 45])
    celsius, packs = chance.choice([-70, -20, 4, 8]), chance.randint(2, 19)
    return {
        "tube": f"{chance.randint(10, 99)}.{chance.randint(1000, 9999)}",
        "patient": f"pt{chance.randint(10000, 99999)}",
        "batch": f"lot {chance.randint(100, 999)}{chance.choice('abcd')}",
        "analyser": chance.choice(["Vega", "Rigel", "Deneb", "Altair"]),
        "ward": f"ward {chance.randint(1, 14)}",
        "first_test": first,
        "second_test": second,
        "first_code": TESTS[first],
        "second_code": TESTS[second],
        "material": material,
        "shelf": SHELVES[material],
        "other_shelf": SHELVES[other],
        "day": day.isoformat(),
        "day_of_year": f"{day.year}-{day.timetuple().tm_yday:03}",
        "clock": f"{hour:02}:{minute:02}",
        "half_hour": chance.choice(["30", "45", "60"]),
        "celsius": str(celsius),
        "kelvin": str(273 + celsius),
        "force": str(chance.choice([1200, 1500, 2000, 2500])),
        "speed": str(chance.choice([3000, 3400, 4200])),
        "span": str(chance.choice([5, 10, 15])),
        "packs": str(packs),
        "pieces": str(50 * packs),
    }


LABORATORY = MadeUpWorld(
    "laboratory",
    (
        Convention(
            "order_tests", "error states it", "order_tests: tests is a list of three-letter codes, as in GLU and POT.",
            ("Measure {first_test} and {second_test} of patient {patient}.",
             "Patient {patient} needs {first_test} and {second_test}.",
             "How are {first_test} and {second_test} in {patient}? Have them determined.",
             "Please run {first_test} plus {second_test}, {patient}."),
            (("order_tests", {"subject": '{"id": "{patient}"}', "tests": '["{first_code}", "{second_code}"]'}),),
            error="tests[0] is not one of the three-letter codes (GLU, POT, CRE, ...)", stated=r"three-letter codes",
            argument="tests", right=r"[A-Z]{3}",
            wrong=('["{first_test}", "{second_test}"]', '"{first_test}, {second_test}"'),
        ),
        Convention(
            "register_specimen", "bare code",
            "register_specimen: collected is the year and the day of the year, as in 2032-147.",
            ("Register tube {tube}, drawn on {day}.", "Tube {tube} was taken on {day}; register it.",
             "Enter {tube} into the books, collection {day}.", "New tube: {tube}, date of the draw {day}."),
            (("register_specimen", {"tube": '"{tube}"', "collected": '"{day_of_year}"', "urgent": "<true|false>"}),),
            error="LIS-0042", stated=r"day of the year|ordinal", argument="collected", right=r"2032-\d{3}",
            wrong=('"{day}"', '"{day}T00:00"'),
        ),
        Convention(
            "spin_tube", "no error", "spin_tube: the program has the force as rcf, not the speed as rpm.",
            ("Centrifuge {tube} for {span} minutes.", "Spin {tube}, {span} minutes.",
             "{tube} has to be separated, {span} min.", "Separate the cells in {tube} ({span} min)."),
            (("spin_tube", {"tube": '"{tube}"', "program": '{"rcf": {force}, "minutes": {span}}'}),),
            stated=r"\brcf\b", argument="program", right=r"rcf",
            wrong=('{"rpm": {speed}, "minutes": {span}}', '{"speed": "fast", "minutes": {span}}'),
        ),
        Convention(
            "release_result", "bare code", "release_result: call check_delta first.",
            ("Release the result of {tube}.", "The result of {tube} may go out; release it.",
             "{tube} is finished: make the value visible.", "Publish what came out for {tube}."),
            (("check_delta", {"tube": '"{tube}"', "against": '"<last|mean>"'}),
             ("release_result", {"tube": '"{tube}"'})),
            error="state 5 -> 6 refused", also="check_delta",
        ),
        Convention(
            "ship_sample", "error states it", "ship_sample: the temperature is a whole number of kelvin.",
            ("Ship {tube} to the reference laboratory at {celsius} degrees.",
             "Send {tube} out for confirmation, at {celsius} °C.",
             "{tube} goes to the external institute, keep it at {celsius} °C.",
             "Courier for {tube}, {celsius} degrees Celsius."),
            (("ship_sample", {"items": '[{"tube": "{tube}", "count": 1}]', "temperature": "{kelvin}"}),),
            error="temperature must be a whole number of kelvin", stated=r"kelvin", argument="temperature",
            right=r"2\d\d", wrong=("{celsius}", '"{celsius} C"', '{"value": {celsius}, "unit": "C"}'),
        ),
        Convention(
            "store_sample", "no error",
            "store_sample: plasma goes to shelf F80, serum to shelf C04, urine to shelf R12.",
            ("Store the {material} of tube {tube}.", "Put {tube} ({material}) into storage.",
             "Keep {tube}, it is {material}.", "{material} in {tube}: put it away."),
            (("store_sample", {"tube": '"{tube}"', "material": '"{material}"', "place": '{"shelf": "{shelf}"}'}),),
            argument="place", right="F80|C04|R12", depends_on=("material", SHELVES),
            wrong=('{"shelf": "{other_shelf}"}', '{"shelf": "any"}'),
        ),
        Convention(
            "print_label", "bare code", "print_label: the symbology of the layout is DM.",
            ("Print a label for {tube}.", "{tube} needs a new label.",
             "The sticker of {tube} is torn, make another.", "Make a barcode for {tube}."),
            (("print_label", {"layout": '{"symbology": "DM", "width": <29|38>}', "text": '"{tube}"'}),),
            error="printer says -214", stated=r"symbology.{0,40}\bDM\b", argument="layout", right="DM",
            wrong=('{"symbology": "code128", "width": <29|38>}', '{"symbology": "QR", "width": <29|38>}'),
        ),
        Convention(
            "notify_ward", "no error", "notify_ward: a critical value has level 70.",
            ("Tell {ward} about the critical {first_test} of {patient}.",
             "Inform {ward}: {first_test} of {patient} is critical.",
             "{patient} has a dangerous {first_test}; {ward} must know.", "Alarm {ward}, {first_test} of {patient}."),
            (("notify_ward", {"to": '["{ward}"]', "patient": '"{patient}"', "level": "70"}),),
            stated=r"level.{0,20}\b70\b", argument="level", right="70", wrong=("1", '"critical"', "10"),
        ),
        Convention(
            "amend_report", "no error", "amend_report: call file_version too.",
            ("Amend the report of {patient}: {first_test} was mixed up.",
             "Correct {first_test} in the report of {patient}.",
             "The findings of {patient} name a wrong {first_test}, put it right.",
             "{patient}'s findings need another {first_test}."),
            (("amend_report", {"patient": '"{patient}"', "changes": '{"test": "{first_code}", "by": "<me|chief>"}'}),
             ("file_version", {"patient": '"{patient}"'})),
            also="file_version",
        ),
        Convention(
            "book_analyser", "error states it",
            "book_analyser: slot is an interval of a start and a duration, as in 2032-05-02T08:00/PT30M.",
            ("Book {analyser} on {day} at {clock} for {half_hour} minutes.",
             "{analyser} is needed on {day}, {clock}, {half_hour} minutes; book it.",
             "Keep {analyser} free for us: {day} {clock}, {half_hour} min.",
             "We want {half_hour} min of {analyser} from {clock} on {day}."),
            (("book_analyser", {"name": '"{analyser}"', "slot": '"{day}T{clock}/PT{half_hour}M"'}),),
            error="slot: not an interval of start and duration (like 2032-05-02T08:00/PT30M)",
            stated=r"start and (?:a )?duration", argument="slot", right=r"[\d-]+T\d\d:\d\d/PT\d+M",
            wrong=('"{day} {clock}"', '{"from": "{day} {clock}", "minutes": {half_hour}}'),
        ),
        Convention(
            "discard_batch", "error states it", "discard_batch: call sign_disposal first.",
            ("Discard {batch}.", "Throw {batch} away, it is too old.", "{batch} has expired, get rid of it.",
             "Remove {batch} from the stock for good."),
            (("sign_disposal", {"batch": '"{batch}"', "witness": '"<A|B|C>"'}),
             ("discard_batch", {"batch": '"{batch}"'})),
            error="disposal is not signed yet (see sign_disposal)", also="sign_disposal",
        ),
        Convention(
            "reorder_reagent", "bare code", "reorder_reagent: the quantity counts packs of 50, as in 4x50.",
            ("Order {pieces} cartridges for {analyser}.", "{analyser} is short of cartridges: order {pieces}.",
             "Get {pieces} more cartridges for {analyser}.", "We are out of cartridges for {analyser}, buy {pieces}."),
            (("reorder_reagent", {"device": '"{analyser}"', "quantity": '"{packs}x50"'}),),
            error="E/7/3", stated=r"packs? of 50", argument="quantity", right=r"\d+x50",
            wrong=("{pieces}", '"{pieces} pieces"'),
        ),
    ),
    (("get_patient", {"id": '"{patient}"'}), ("list_analysers", {}), ("find_tube", {"number": '"{tube}"'}),
     ("read_stock", {"batch": '"{batch}"'}), ("comment", {"text": '"<noted|in work|ask later|done by noon>"'})),
    _draw_values,
)  # fmt: skip
