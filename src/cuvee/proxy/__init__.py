"""The small language model that stands in for the real run: its shape, its training, its bits per byte.

One proxy trains on one CPU thread, so that its bytes do not depend on how many cores a machine has and so that two
proxies on two cores do not fight. XLA sizes its thread pool by the variable NPROC when its first computation runs;
XLA_FLAGS stay the user's (of them, xla_cpu_multi_thread_eigen=false and intra_op_parallelism_threads=1 no longer hold
it to one thread: 1.9 CPU seconds a second with jax 0.10.2).
"""

import os

os.environ["NPROC"] = "1"  # before jax starts, for this process and its children
