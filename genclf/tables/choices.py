"""What a user may choose for cells that are missing, or whose value is not in the schema."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from genclf.arguments.domains import one_of
from genclf.tables.columns import Unseen

MISSING = one_of("ignore", "value")
UNSEEN = replace(one_of(*get_args(Unseen)), optional=True)
UNSEEN_LABELS = one_of("error", "ignore")
