"""The bodies of requests, read within a size and a time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from sagent.errors import UsageError
from sagent.plugins.hosting.problem import BodyTooLarge, BodyTooSlow

MAX_DROPPED_BYTES = 64 << 20  # read of an oversized request, so that a client that sends all first can read the answer


async def read_within(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Read the body of a request. Raises BodyTooLarge, BodyTooSlow, and UsageError for one that is cut off."""
    data, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size <= max_bytes:
                    data += piece
                elif size > MAX_DROPPED_BYTES:
                    break
    except TimeoutError as error:
        raise BodyTooSlow(f"The request did not arrive within {seconds} seconds: send it again.") from error
    except ClientDisconnect as error:
        raise UsageError("The request was cut off.") from error
    if size > max_bytes:
        raise BodyTooLarge(f"The request is larger than {max_bytes:,} bytes.")
    return bytes(data)
