"""The dataset of a trace, by its resource."""

from __future__ import annotations

import re
from collections.abc import Mapping

DATASET_ATTRIBUTE = "hansei.dataset"
SERVICE_ATTRIBUTE = "service.name"
ALL_SERVICES = "*"
_DATASET = re.compile(r"[A-Za-z0-9_-]{1,128}")


def parse_datasets(text: str) -> dict[str, str]:
    """Return the datasets by service of a setting such as `shop-agent=shop,*=others`.

    Raises ValueError with the wrong part.
    """
    datasets: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        service, equals, dataset = (piece.strip() for piece in part.rpartition("="))
        if not service or not equals or not is_dataset(dataset):
            raise ValueError(f"{part!r} must be <service.name>=<dataset>, with a dataset of A-Z, a-z, 0-9, _ and -")
        if service in datasets:
            raise ValueError(f"{service!r} is named twice")
        datasets[service] = dataset
    return datasets


def is_dataset(name: str) -> bool:
    """Return whether a dataset may have this name."""
    return _DATASET.fullmatch(name) is not None


def find_dataset(datasets: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    """Return the dataset of a resource with these attributes; empty for none."""
    named = attributes.get(DATASET_ATTRIBUTE, "")
    return named or datasets.get(attributes.get(SERVICE_ATTRIBUTE, ""), "") or datasets.get(ALL_SERVICES, "")
