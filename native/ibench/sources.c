/* The table of sources. */
#include "ibench.h"

const struct source *const SOURCES[] = {
    &integer_source,
    &memory_capacity_source,
    &memory_bandwidth_source,
    &storage_capacity_source,
    &storage_bandwidth_source,
    &network_bandwidth_source,
};
const size_t SOURCE_COUNT = sizeof SOURCES / sizeof *SOURCES;
