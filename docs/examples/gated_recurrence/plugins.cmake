# The operators of this package: `trtsmith build-plugins` compiles them into one library.
trtsmith_operator(GatedRecurrence TRITON gated_recurrence_triton.py)
