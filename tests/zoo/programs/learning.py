"""scikit-learn with joblib: worker processes that share a mapped array, and OpenMP threads."""

import hashlib
import sys

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import KFold

ROWS, FOLDS = 4000, 6


def fit(data: np.ndarray, target: np.ndarray, out: np.ndarray, number: int) -> float:
    train, test = list(KFold(FOLDS).split(data))[number]
    forest = RandomForestClassifier(30, random_state=number, max_depth=12)
    forest.fit(data[train], target[train])
    out[test] = forest.predict_proba(data[test])[:, 1]
    return float(forest.score(data[test], target[test]))


if __name__ == "__main__":
    made, target = make_classification(ROWS, 40, n_informative=20, random_state=7)
    joblib.dump(made, "data.joblib")
    data = joblib.load("data.joblib", mmap_mode="r")
    out = np.lib.format.open_memmap("out.npy", "w+", np.float64, (ROWS,))
    scores = joblib.Parallel(n_jobs=2, backend=sys.argv[1])(
        joblib.delayed(fit)(data, target, out, number) for number in range(FOLDS)
    )
    boosted = HistGradientBoostingClassifier(max_iter=60, random_state=1).fit(data, target)
    digest = hashlib.sha256(out.tobytes() + boosted.predict_proba(data).tobytes()).hexdigest()
    print("learning", [score.hex() for score in scores], digest)
