"""Map a confidence to the probability that the result is correct."""

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
    """A map from scores to probabilities; `log_loss` is its loss on held-out labels."""

    kind: Kind
    log_loss: float | None
    predict: Predict

    def __call__(self, score: float) -> float:
        """Return the probability that a step with this score is correct."""
        import numpy as np  # here already, if anything was fitted

        return float(self.predict(np.array([score]))[0])


UNCALIBRATED = Calibration("none", None, lambda scores: scores)
