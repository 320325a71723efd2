/* The table of sources. */
#include "ibench.h"

const struct source *const SOURCES[] = {
    &integer_source,
    &storage_bandwidth_source,
};
const size_t SOURCE_COUNT = sizeof SOURCES / sizeof *SOURCES;
