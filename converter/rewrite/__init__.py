"""The graph that TensorRT gets, made of the graph that the user has."""
