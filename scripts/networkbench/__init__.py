"""Times whole networks on a GPU: our engines, engines of TensorRT's own operators, and PyTorch."""
