"""Stage: builds an engine; where TensorRT refuses the graph, finds the nodes, and what is known to help there."""
