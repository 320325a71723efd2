"""Why a workload is as fast as it is: hardware, applications, and what sharing does to them."""
