"""Writes the results of `trtsmith bench` as a document, and defines each of its figures.

The terms are those of trtexec's documentation ("Benchmarking Network"); where a figure is ours, it is said. Times are in
milliseconds unless the name says otherwise, and each is a summary over the inferences of a run: count, min, median,
mean, p90, p95, p99, max, and variation, the coefficient of variation (standard deviation over mean).

    format           1
    command          the command again, without what changes nothing that is measured
    gpu, driver, ... the machine (converter/plugin/machine.py)
    clocks           what nvidia-smi said at the end of the last run: sm_mhz and memory_mhz as found, the most that the
                     GPU has (max_sm_mhz, max_memory_mhz), temperature_c, power_w; null where it says nothing
    engine           path, bytes, flavour, version, device_memory (bytes of activation memory of one context), inputs and
                     outputs as text
    runs             one for each point of the profile (--at, --shapes, --inputs), with and without CUDA graph:
      point          "min", "opt", "max", "shapes" or "inputs"
      shapes         by input; of a shape tensor, its values
      batch          the first dimension of the first input that has one
      cuda_graph     whether kernels were captured into a CUDA graph and launched together
      streams        execution contexts that ran at the same time, each on a stream of its own
      transfers      whether inputs and outputs were copied from and to the host (pinned memory)
      unavailable    why the run was not possible; then there are no figures
      queries        inferences, warm-up left out
      wall_s         host time from enqueuing the first inference to the end of the last
      throughput     queries / wall_s. Far below 1000 / compute_ms: host or transfers keep the GPU waiting
      samples_per_s  throughput times batch
      latency_ms     h2d + compute + d2h of one inference
      enqueue_ms     host time to enqueue one inference: copies, kernels, events
      h2d_ms         copying the inputs to the GPU, between CUDA events
      compute_ms     the engine's kernels, between CUDA events
      d2h_ms         copying the outputs to the host, between CUDA events
      response_ms    ours: host time from asking to having the answer, one inference at a time
      remarks        what the figures say beyond themselves
    outputs          of the first run: name, dtype, shape, elements, nan (how many are NaN)
    layers           the profile of the first point, without CUDA graph, or null. TensorRT's profiler makes inferences
                     slower: shares mean more than times.
      inferences     profiled ones
      sum_ms         of all layers
      layers         layer, ms (median), share, type (of the ONNX nodes that it computes, else TensorRT's own), nodes,
                     plugin (its name, or null)
      by_type        type, layers, ms, share
      by_plugin      plugin, layers, ms, share
    against          for each baseline: name, what (version, provider), transfers, response_ms, throughput, ratio (its median
                     response_ms over the engine's without CUDA graph), agrees, status and reason (the verdict on the
                     engine's outputs against its), outputs (comparisons, as `convert` reports them); or unavailable
    plugin_vs_native see converter/bench/native_bench.py, or null
    warnings         sentences

`--json FILE` writes it whole or not at all.
"""

from __future__ import annotations

FORMAT = 1
