"""The value formats `json` and `confluent`: conversion to and from the canonical form (DESIGN.md, section 4).

Inside the project a value is always Avro single-object encoding with one of the project's current schemas: the
canonical form. A format turns what stands in a topic into it, or refuses with a reason for the dead letters, and back.
"""

from moneystate.kafka.formats.base import Reason, Undecodable, ValueFormat, make_format, subject_of
from moneystate.kafka.formats.schemas import SchemaSet, TypeSchema

__all__ = [
    "Reason",
    "SchemaSet",
    "TypeSchema",
    "Undecodable",
    "ValueFormat",
    "make_format",
    "subject_of",
]
