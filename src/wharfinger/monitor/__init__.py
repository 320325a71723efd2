"""How a workload's performance is read; docs/measure.md explains each way.

The local engine calls ``client.MeterClient``, which runs one process, ``meter``, for all its
workloads. There one ``watch.Watch`` per workload samples its readers, and each reader's ``source``
smooths its numbers. The client gets ``model.performance.Sample`` values.
"""
