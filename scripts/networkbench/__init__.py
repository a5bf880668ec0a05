"""Times whole networks on a GPU: our engines beside TensorRT's own operators and PyTorch."""
