"""Commands that hostd runs."""

import subprocess

from hostlib.hostd.errors import HostdError

TIMEOUT_S = 10.0


class ToolError(HostdError):
    """A command refused, or is not there."""


def run(*command: str) -> str:
    """What a tool printed. Raises: ToolError: it refused; says why in its own last words."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="backslashreplace", timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"`{' '.join(command[:5])}`: {error}") from error
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        why = next((line for line in said if line.startswith(("Error", "RTNETLINK"))), "")
        why = why or (said[-1] if said else f"exit status {done.returncode}")
        raise ToolError(f"`{' '.join(command[:5])}`: {why.strip()}")
    return done.stdout
