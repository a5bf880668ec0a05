"""Stage: finds the node that makes an engine's numbers differ from onnxruntime's, and a minimal model that shows it."""
