/* The table of sources. */
#include "ibench.h"

const struct source *const SOURCES[] = {
    &integer_source,
    &floating_point_source,
    &vector_source,
    &l1_instruction_cache_source,
    &l1_data_cache_source,
    &tlb_source,
    &l2_cache_source,
    &l2_bandwidth_source,
    &last_level_cache_source,
    &last_level_cache_bandwidth_source,
    &prefetcher_source,
    &interconnect_source,
    &memory_capacity_source,
    &memory_bandwidth_source,
    &storage_capacity_source,
    &storage_bandwidth_source,
    &network_bandwidth_source,
    &bubble_source,
};
const size_t SOURCE_COUNT = sizeof SOURCES / sizeof *SOURCES;
