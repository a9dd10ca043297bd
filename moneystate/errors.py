"""The one tree of errors that a user can meet.

    MoneystateError                 exit code 1
    ├── ConfigError            2    a flag, variable or file that does not parse or fit together
    │   └── ServiceError            a service is declared wrongly
    ├── SetupError             3    the surroundings are not as needed: Java, broker, topic, folder
    │   ├── BrokerError             no broker answers, or it refuses
    │   ├── RetentionError          the log no longer holds the records that are to be read
    │   └── ArchiveError            a folder of kept records that is not whole or not as expected
    ├── CheckpointError        4    this checkpoint must not go on with this program or configuration
    │   ├── RulesError              other rules than those of the planned batch
    │   ├── DrainedError            the checkpoint was ended by --drain
    │   ├── MarkerError             the markers in Kafka are not those of this checkpoint
    │   ├── InstanceError           another instance runs with this application id
    │   └── SavepointError          a savepoint that is not whole, or does not fit
    ├── JobError               5    the running job failed
    │   ├── UnknownSchemaId         a record names a schema that the registry does not know (yet)
    │   └── StepError               a service's step failed on a record
    └── QueryError             *    a query server's answer is an error; see moneystate/cli/connection.py

A message is one line: where, what was expected, what came, and after "Do:" what to do. Tests match the class or
the exit code, never the prose.
"""

from __future__ import annotations


class MoneystateError(Exception):
    """Base of all errors that are shown to the user as one line."""

    exit_code = 1

    def __init__(self, message: str, do: str = "") -> None:
        super().__init__(f"{message} Do: {do}" if do else message)


class ConfigError(MoneystateError):
    exit_code = 2


class ServiceError(ConfigError):
    pass


class SetupError(MoneystateError):
    exit_code = 3


class BrokerError(SetupError):
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


class QueryError(MoneystateError):
    def __init__(self, message: str, do: str, exit_code: int) -> None:
        super().__init__(message, do)
        self.exit_code = exit_code
