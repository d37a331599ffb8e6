"""What a user may choose for cells that are missing, or whose value is not in the schema."""

from __future__ import annotations

from typing import get_args

from genclf.arguments.domains import Domain
from genclf.tables.columns import Unseen

MISSING = Domain('"ignore" or "value"', {"ignore", "value"}.__contains__)
UNSEEN = Domain('"ignore", "other" or "error"', {*get_args(Unseen)}.__contains__, optional=True)
UNSEEN_LABELS = Domain('"error" or "ignore"', {"error", "ignore"}.__contains__)
