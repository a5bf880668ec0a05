# The operators of this package: `trtsmith op build` compiles them into one library.
trtsmith_operator(GatedRecurrence TRITON gated_recurrence_triton.py)
