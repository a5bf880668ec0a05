"""Brings GatedRecurrence to trtsmith, which reads OPERATORS. `trtsmith op build` puts the library into lib/."""

from gated_recurrence.definition import GATED_RECURRENCE

OPERATORS = (GATED_RECURRENCE,)
