"""The request to reflect on one trajectory."""

from __future__ import annotations

from dataclasses import dataclass

from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.errors import InvalidMaxIterations
from services.reflector.domain.reflection import UsedBullet
from services.reflector.domain.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ReflectionRequest:
    """One trajectory to reflect on, with data about its outcome (R-07 to R-09, R-29).

    ``bullets`` holds bullets of the playbook, the used ones among them, ``siblings`` other trajectories of the same
    task to compare with. Raises InvalidMaxIterations and InvalidTrajectoryDataset.
    """

    trajectory: Trajectory
    dataset: str
    ground_truth: str = ""
    test_report: str = ""
    max_iterations: int = 1
    bullets: tuple[UsedBullet, ...] = ()
    siblings: tuple[Trajectory, ...] = ()

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise InvalidMaxIterations
        check_dataset(self.dataset)
