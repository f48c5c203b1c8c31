"""From a confidence to the probability of being right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Predict = Callable[[Vector], Vector]

Kind = Literal["none", "platt", "isotonic"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A map from scores to probabilities. `log_loss` is what it had on labels it was not made from."""

    kind: Kind
    log_loss: float | None
    predict: Predict

    def __call__(self, score: float) -> float:
        """The probability that a step of this score is right."""
        import numpy as np  # here already, if anything was fitted

        return float(self.predict(np.array([score]))[0])


UNCALIBRATED = Calibration("none", None, lambda scores: scores)
