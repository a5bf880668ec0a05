"""Stage: builds an engine; if TensorRT refuses the graph, finds the failing nodes and tries workarounds."""
