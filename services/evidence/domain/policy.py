"""The policy of trials: the shares that are withheld, and the rules of decisions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialPolicy:
    """Probabilities of withholding, and the rules of decisions; see `hansei.evidence.v1.TrialPolicy`."""

    bullet_holdout: float = 0.25
    playbook_holdout: float = 0.25
    audit_holdout: float = 0.1
    false_discovery_rate: float = 0.05
    margin: float = 0.1

    def has_equal_holdouts(self, other: TrialPolicy) -> bool:
        """Return whether sessions under both policies may be counted together."""
        return (self.bullet_holdout, self.playbook_holdout, self.audit_holdout) == (
            other.bullet_holdout,
            other.playbook_holdout,
            other.audit_holdout,
        )
