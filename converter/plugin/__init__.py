"""Plugin libraries without TensorRT: the host that drives them, and the contract that they are tested against."""
