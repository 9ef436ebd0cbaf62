"""Errors of a schema registry, with Confluent's codes, as its clients expect them.

The body of such an answer is ``{"error_code": 40401, "message": "…"}``. A code's first three digits
are the status of HTTP.
"""


class Refused(Exception):
    """A request that isn't fulfilled; ``code`` is Confluent's, ``message`` is one line."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return self.code if self.code < 1000 else self.code // 100


def denied() -> Refused:
    """The client may not do this; which right it lacks, the audit log says."""
    return Refused(40301, "Forbidden: the user may not do this with these schemas")


def no_subject(subject: str) -> Refused:
    """The subject has no version that the request may see."""
    return Refused(40401, f"Subject '{subject}' not found.")


def no_version(version: int | str) -> Refused:
    """The subject has no such version."""
    return Refused(40402, f"Version {version} not found.")


def no_schema(which: int | None = None) -> Refused:
    """No schema has this id, or no version of the subject is this schema."""
    return Refused(40403, "Schema not found" if which is None else f"Schema {which} not found")


def deleted_subject(subject: str) -> Refused:
    """The subject is soft deleted already."""
    text = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    return Refused(40404, text)


def undeleted_subject(subject: str) -> Refused:
    """The subject has to be soft deleted before it is deleted for good."""
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return Refused(40405, text)


def deleted_version(subject: str, version: int) -> Refused:
    """The version is soft deleted already."""
    text = f"Subject '{subject}' Version {version} was soft deleted. "
    return Refused(40406, text + "Set permanent=true to delete permanently")


def undeleted_version(subject: str, version: int) -> Refused:
    """The version has to be soft deleted before it is deleted for good."""
    text = f"Subject '{subject}' Version {version} was not deleted "
    return Refused(40407, text + "first before being permanently deleted")


def no_own_level(subject: str) -> Refused:
    """The subject has no settings of its own."""
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return Refused(40408, text)


def no_own_mode(subject: str) -> Refused:
    """The subject has no mode of its own."""
    return Refused(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> Refused:
    """The schema may not follow the versions that the subject has."""
    text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    return Refused(409, f"{text}, details: {messages}")


def invalid_schema(why: str) -> Refused:
    """The text is no schema of its type, or a reference of it leads nowhere."""
    return Refused(42201, f"Invalid schema: {why}")


def no_such_type(why: str) -> Refused:
    """The registry has no such type of schemas; the code is that of an invalid schema."""
    return Refused(42201, f"this registry has no {why}")


def invalid_version(version: str) -> Refused:
    """The version is no number and not ``latest``."""
    text = f"The specified version '{version}' is not a valid version id. Allowed values are "
    return Refused(42202, text + 'between [1, 2^31-1] and the string "latest"')


def invalid_level() -> Refused:
    """There is no such level of compatibility."""
    text = "Invalid compatibility level. Valid values are none, backward, forward, full, "
    return Refused(42203, text + "backward_transitive, forward_transitive, and full_transitive")


def invalid_mode() -> Refused:
    """There is no such mode."""
    return Refused(42204, "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT")


def not_permitted(why: str) -> Refused:
    """The mode forbids the request."""
    return Refused(42205, why)


def reference_exists(subject: str, version: int) -> Refused:
    """Other schemas use the version that shall be deleted."""
    return Refused(
        42206, f"One or more references exist to the schema {subject}, version {version}."
    )


def invalid_subject(subject: str) -> Refused:
    """The name is empty, too long, or has control characters."""
    return Refused(42208, f"The specified subject '{subject[:80]}' is not a valid subject.")


def too_large(why: str) -> Refused:
    """The schema is larger than a registry keeps."""
    return Refused(42209, why)


def not_stored(why: str) -> Refused:
    """The topic takes no record at the moment; nothing was changed, or the answer isn't known."""
    return Refused(50001, why)
