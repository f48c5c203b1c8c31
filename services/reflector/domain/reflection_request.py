"""The request to reflect on one run."""

from __future__ import annotations

from dataclasses import dataclass

from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.errors import InvalidMaxIterations
from services.reflector.domain.reflection import Bullet
from services.reflector.domain.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ReflectionRequest:
    """One trajectory to reflect on, with what is known of its outcome (R-07 to R-09, R-29).

    ``bullets`` is the playbook in which used bullets are looked up, ``siblings`` other runs of the same task to
    contrast with. Raises InvalidMaxIterations and InvalidDatasetName.
    """

    trajectory: Trajectory
    dataset: str
    ground_truth: str = ""
    test_report: str = ""
    max_iterations: int = 1
    bullets: tuple[Bullet, ...] = ()
    siblings: tuple[Trajectory, ...] = ()

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise InvalidMaxIterations
        check_dataset(self.dataset)
