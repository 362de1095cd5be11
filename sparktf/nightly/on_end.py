"""`output.on_end`: a command of the user's that learns how the run has ended."""

from __future__ import annotations

from collections.abc import Sequence

from sparktf.driver.gang.site import Voice
from sparktf.nightly.errand import Errand
from sparktf.results.result import RunResult, result_content


def tell_of_end(command: Sequence[str], result: RunResult, limit_s: float, voice: Voice) -> None:
    """Runs the command, with what result.json holds on its standard input, and shows what it says.

    Raises nothing but where the driver is interrupted: a command that fails or hangs is a warning.
    """
    try:
        ended = Errand(command, result_content(result), limit_s, variables_of(result)).wait()
    except (OSError, ValueError) as error:  # the latter: a NUL among the words, which no program is given
        voice.warn(f"output.on_end: {command[0]} was not run: {error}")
        return
    for line in ended.lines:
        voice.say(f"on_end: {line}")
    if complaint := ended.complaint(limit_s):
        voice.warn(f"output.on_end: {command[0]} {complaint}")


def variables_of(result: RunResult) -> dict[str, str]:
    """Returns what the command's environment says of the run."""
    return {
        "SPARKTF_RUN": f"{result.name}/{result.run_id}",
        "SPARKTF_NAME": result.name,
        "SPARKTF_RUN_ID": result.run_id,
        "SPARKTF_DATE": result.date,
        "SPARKTF_PATH": result.path,
        "SPARKTF_VERDICT": str(int(result.verdict)),
        "SPARKTF_CAUSE": "" if result.error is None else result.error.message,
        "SPARKTF_PUBLISHED": str(result.extra.get("published") or ""),
    }
