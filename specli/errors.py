"""Errors a user can cause: each says what was wrong and what to do about it."""


class SpecliError(Exception):
    """A failure worded for the user.

    Args:
        message: What was wrong, naming the file or flag.
        hint: What to do about it, if there is something to do.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(SpecliError):
    """A flag or an argument that cannot be used as given."""

    exit_code = 2
