"""The measurements, in the order in which they run."""

from typing import Final

from benchmarks.frame import Measure
from benchmarks.measures.calls import never, safe
from benchmarks.measures.conversation import conversation
from benchmarks.measures.imports import imports
from benchmarks.measures.stored import stored
from benchmarks.measures.throughput import throughput

ON_DISK: Final = frozenset({"sqlite"})

MEASURES: Final = (
    Measure("safe", safe),
    Measure("never", never),
    Measure("throughput", throughput),
    Measure("stored", stored, ON_DISK),
    Measure("conversation", conversation, ON_DISK),
    Measure("import", imports),
)
