"""The manifest: workloads as users write them, in YAML or JSON.

The order of work: ``reader`` (bytes to trees, within limits), ``sections`` (trees to values by the
table in ``fields``), ``rules`` (between fields), ``names`` (between documents), ``advice``
(warnings); ``output`` writes. Scenarios have a table of their
own and are read by the same engine.
"""

from wharfinger.manifest.loading import load_manifests, load_manifests_with_warnings
from wharfinger.manifest.output import json_schema, workload_to_manifest

__all__ = ["json_schema", "load_manifests", "load_manifests_with_warnings", "workload_to_manifest"]
