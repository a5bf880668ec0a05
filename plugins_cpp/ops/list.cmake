# The operators of the plugin libraries, in the order of the manifest. Each names its binding, in ops/, and the CUDA sources
# that it needs, in kernels/; several may need the same one. DATA_DEPENDENT_SHAPES: sizes of outputs depend on values. Such
# an operator is in the V3 library alone, as IPluginV2DynamicExt has no size tensors.
set(deformable_convolution_kernels
  deformable_convolution.cu deformable_convolution_hopper_bfloat16.cu deformable_convolution_hopper_float.cu
  deformable_convolution_hopper_half.cu)

trtsmith_operator(MultiscaleDeformableAttention
  BINDING multiscale_deformable_attention.cpp KERNELS multiscale_deformable_attention.cu)
trtsmith_operator(MultiscaleDeformableAttentionFromOffsets
  BINDING multiscale_deformable_attention_from_offsets.cpp KERNELS multiscale_deformable_attention_from_offsets.cu)
trtsmith_operator(ModulatedDeformableConvolution
  BINDING modulated_deformable_convolution.cpp KERNELS ${deformable_convolution_kernels})
trtsmith_operator(DeformableConvolution
  BINDING deformable_convolution.cpp KERNELS ${deformable_convolution_kernels})
trtsmith_operator(MatrixInverse BINDING matrix_inverse.cpp KERNELS matrix_inverse.cu)
trtsmith_operator(NonZeroPositions DATA_DEPENDENT_SHAPES BINDING non_zero_positions.cpp KERNELS non_zero.cu)
trtsmith_operator(SelectedSlices DATA_DEPENDENT_SHAPES
  BINDING selected_slices.cpp KERNELS selected_slices.cu gather_slices.cu)
trtsmith_operator(UniqueSlices DATA_DEPENDENT_SHAPES
  BINDING unique_slices.cpp KERNELS unique_slices.cu gather_slices.cu)
trtsmith_operator(BoxSelection DATA_DEPENDENT_SHAPES BINDING box_selection.cpp KERNELS box_selection.cu)
trtsmith_operator(RegionAlign BINDING region_align.cpp KERNELS regions/region_align.cu)
trtsmith_operator(RotatedRegionAlign BINDING rotated_region_align.cpp KERNELS regions/region_align.cu)
trtsmith_operator(PyramidRegionAlign BINDING pyramid_region_align.cpp KERNELS regions/region_align.cu)
trtsmith_operator(PyramidRotatedRegionAlign BINDING pyramid_rotated_region_align.cpp KERNELS regions/region_align.cu)
trtsmith_operator(PositionSensitiveRegionAlign
  BINDING position_sensitive_region_align.cpp KERNELS regions/region_align.cu)
trtsmith_operator(DeformableRegionPool BINDING deformable_region_pool.cpp KERNELS regions/region_align.cu)
trtsmith_operator(RegionPool BINDING region_pool.cpp KERNELS regions/region_pool.cu)
trtsmith_operator(DetectionSelection BINDING detection_selection.cpp KERNELS selection/detection_selection.cu)
trtsmith_operator(RotatedBoxSelection DATA_DEPENDENT_SHAPES
  BINDING rotated_box_selection.cpp KERNELS selection/rotated_box_selection.cu)
trtsmith_operator(SoftBoxSelection DATA_DEPENDENT_SHAPES
  BINDING soft_box_selection.cpp KERNELS selection/soft_box_selection.cu)
trtsmith_operator(TopElements BINDING top_elements.cpp KERNELS selection/top_elements.cu)
trtsmith_operator(BevPool BINDING bev_pool.cpp KERNELS bev/bev_pool.cu)
trtsmith_operator(PillarScatter BINDING pillar_scatter.cpp KERNELS bev/pillar_scatter.cu)
trtsmith_operator(GroupedDeformableSampling
  BINDING grouped_deformable_sampling.cpp KERNELS sampling/grouped_deformable_sampling.cu)
trtsmith_operator(SubmanifoldRulebook BINDING submanifold_rulebook.cpp KERNELS sparse/submanifold_rulebook.cu)
trtsmith_operator(StridedRulebook DATA_DEPENDENT_SHAPES
  BINDING strided_rulebook.cpp KERNELS sparse/strided_rulebook.cu)
trtsmith_operator(RulebookConvolution BINDING rulebook_convolution.cpp KERNELS sparse/rulebook_convolution.cu)
trtsmith_operator(VolumeSampling BINDING volume_sampling.cpp KERNELS sampling/volume_sampling.cu)
trtsmith_operator(FeatureReassembly BINDING feature_reassembly.cpp KERNELS sampling/feature_reassembly.cu)
trtsmith_operator(VoxelGeneration BINDING voxel_generation.cpp KERNELS bev/voxel_generation.cu)
trtsmith_operator(SegmentReduction BINDING segment_reduction.cpp KERNELS reduction/segment_reduction.cu)
trtsmith_operator(IndexedReduction BINDING indexed_reduction.cpp KERNELS reduction/indexed_reduction.cu)
trtsmith_operator(DynamicIndexedReduction DATA_DEPENDENT_SHAPES
  BINDING dynamic_indexed_reduction.cpp KERNELS reduction/indexed_reduction.cu)
trtsmith_operator(IndexedAccumulation BINDING indexed_accumulation.cpp KERNELS reduction/indexed_reduction.cu)
trtsmith_operator(LocalCorrelation BINDING local_correlation.cpp KERNELS sampling/local_correlation.cu)
trtsmith_operator(PreciseRegionPool BINDING precise_region_pool.cpp KERNELS regions/precise_region_pool.cu)
trtsmith_operator(BorderAlign BINDING border_align.cpp KERNELS regions/border_align.cu)
trtsmith_operator(RotatedFeatureAlign BINDING rotated_feature_align.cpp KERNELS regions/rotated_feature_align.cu)
trtsmith_operator(AscendingOrder BINDING ascending_order.cpp KERNELS reduction/ascending_order.cu)
trtsmith_operator(StateSpaceScan BINDING state_space_scan.cpp KERNELS state_space_scan.cu)
trtsmith_operator(FarthestPointSampling
  BINDING farthest_point_sampling.cpp KERNELS points/farthest_point_sampling.cu)
trtsmith_operator(BallNeighbours BINDING ball_neighbours.cpp KERNELS points/neighbour_search.cu)
trtsmith_operator(NearestNeighbours BINDING nearest_neighbours.cpp KERNELS points/neighbour_search.cu)
trtsmith_operator(FeatureAggregation BINDING feature_aggregation.cpp KERNELS sampling/feature_aggregation.cu)
trtsmith_operator(CorrelationLookup BINDING correlation_lookup.cpp KERNELS sampling/correlation_lookup.cu)
trtsmith_operator(NeighbourhoodAttention BINDING neighbourhood_attention.cpp KERNELS neighbourhood_attention.cu)
