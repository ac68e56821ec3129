"""Types of the keywords of functions."""

from __future__ import annotations

import os
from typing import Mapping, Sequence, Union

from .calling import PathLike
from .inputs import Model, Plan, Topology

#: One path or several.
Paths = Union[PathLike, Sequence[PathLike]]
#: A number, or text with a unit such as "15T" or "30 s".
Number = Union[int, float, str]
ModelLike = Union[str, os.PathLike[str], Model]
TopologyLike = Union[str, os.PathLike[str], Topology]
PlanLike = Union[str, os.PathLike[str], Plan]
Plans = Union[PlanLike, Sequence[PlanLike]]
#: One value or several.
Texts = Union[str, Sequence[str]]
#: "layers=2", several of them, or {"layers": 2}.
Settings = Union[str, Sequence[str], Mapping[str, object]]
#: "nodes=1,2", several of them, or {"nodes": [1, 2]}.
Axes = Union[str, Sequence[str], Mapping[str, object]]
