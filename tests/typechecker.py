"""What checks shapes and types in the tests: beartype, once for each function as written."""

import collections

from beartype import beartype

_MADE = collections.Counter()


def checked(function):
    """Let beartype check a class or function; of a nested one, only the first that is made.

    A nested function is made anew in each call of the function around it, and to make its checks
    takes longer than most calls. jaxtyping asks twice for each: for arguments, and for the result.
    """
    name = getattr(function, "__qualname__", "")
    if "<locals>" in name:
        _MADE[function.__module__, name] += 1
        if _MADE[function.__module__, name] > 2:
            return function
    return beartype(function)
