"""The one tree of errors that a user can meet.

    MoneystateError                 exit code 1
    ├── ConfigError            2    a flag, variable or file is invalid, or contradicts another
    │   ├── ServiceError            the declaration of a service is invalid
    │   └── ArgumentError           an argument of a declared query is invalid
    ├── SetupError             3    the environment is not ready: Java, broker, topic, folder
    │   ├── BrokerError             no broker answers, or it refuses
    │   │   └── LateAttemptError    an attempt that came late has taken an output partition of this run
    │   ├── RetentionError          Kafka has deleted records that must be read
    │   └── ArchiveError            an archive is incomplete or does not match
    ├── CheckpointError        4    this program or configuration must not continue this checkpoint
    │   ├── RulesError              the rules differ from those of the planned batch
    │   ├── DrainedError            the checkpoint was ended by --drain
    │   ├── MarkerError             the markers in Kafka do not match this checkpoint
    │   ├── InstanceError           another instance runs with this application id
    │   └── SavepointError          a savepoint is incomplete or does not match
    ├── JobError               5    the running job failed
    │   ├── UnknownSchemaId         the registry does not know the schema of a record (yet)
    │   ├── StepError               a service's step failed on a record
    │   └── SourceError             the rows of a table's source cannot be loaded
    └── QueryError             *    a query server answered with an error; see moneystate/cli/connection.py

A message is one line: where, what was expected, what was found, and after "Do:" what to do. Tests match the class or
the exit code, not the prose.
"""

from __future__ import annotations


class MoneystateError(Exception):
    """Base of all errors that are shown to the user as one line."""

    exit_code = 1

    def __init__(self, message: str, do: str = "") -> None:
        super().__init__(f"{message} Do: {do}" if do else message)
        self.message, self.do = message, do
        self.about: dict[str, object] = {}  # fields of its line in the log, such as the batch


class ConfigError(MoneystateError):
    exit_code = 2


class ServiceError(ConfigError):
    pass


class ArgumentError(ConfigError):
    pass


class SetupError(MoneystateError):
    exit_code = 3


class BrokerError(SetupError):
    pass


class LateAttemptError(BrokerError):
    pass


class RetentionError(SetupError):
    pass


class ArchiveError(SetupError):
    pass


class CheckpointError(MoneystateError):
    exit_code = 4


class RulesError(CheckpointError):
    pass


class DrainedError(CheckpointError):
    pass


class MarkerError(CheckpointError):
    pass


class InstanceError(CheckpointError):
    pass


class SavepointError(CheckpointError):
    pass


class JobError(MoneystateError):
    exit_code = 5


class UnknownSchemaId(JobError):
    pass


class StepError(JobError):
    pass


class SourceError(JobError):
    pass


class QueryError(MoneystateError):
    def __init__(self, message: str, do: str, exit_code: int) -> None:
        super().__init__(message, do)
        self.exit_code = exit_code
