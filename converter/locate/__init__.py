"""Stage: finds the node that makes an engine's results differ from onnxruntime's, and a minimal model that shows it."""
