"""The value formats `json` and `confluent`: conversion to and from the canonical form (docs/model.md, section 4).

Inside the project a value is always in the canonical form: Avro single-object encoding with one of the project's
current schemas. A format converts a topic's values to the canonical form and back. It rejects values with the reason
for the dead letter.
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
