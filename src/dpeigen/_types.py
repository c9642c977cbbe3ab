"""Types that every layer speaks of."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
