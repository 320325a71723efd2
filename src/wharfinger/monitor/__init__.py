"""How a workload's performance is read; docs/measure.md explains each way.

The local engine calls ``client.MeterClient``, which keeps one process, ``meter``, for all its
workloads. There each ``watch.Watch`` samples one workload by its readers: ``streams`` with
``patterns``, ``endpoint`` with ``prometheus``, ``commands``, ``counters``. What they read goes
through ``smoothing``; proxies are checked in ``proxy``. Back come ``model.performance.Sample``
values.
"""
