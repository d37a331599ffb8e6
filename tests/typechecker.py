"""What checks shapes and types in the tests: beartype, once for each function as written."""

from beartype import beartype

_MADE = set()


def checked(function):
    """Let beartype check a class or function; of a nested one, only the first that is made.

    A nested function is made anew in each call of the function around it, and to make its checks
    takes longer than most calls. jaxtyping asks twice for each: for arguments, and for the result.
    """
    name = getattr(function, "__qualname__", "")
    if "<locals>" in name:
        same = function.__module__, name, repr(function.__annotations__)
        if same in _MADE:
            return function
        _MADE.add(same)
    return beartype(function)
