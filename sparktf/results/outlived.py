"""Losses that cost no attempt, as stored in result.json and shown."""

from __future__ import annotations

from sparktf.message import Message


class Outlived(Message):
    """Workers that a synchronous attempt has lost at one update, and how it went on without them."""

    nodes: tuple[str, ...]
    causes: tuple[str, ...]  # Of each, as in `AttemptResult.losses`
    step: int  # Updates of the whole run that were made; the next one was interrupted, and made by those that were left
    workers: int  # Those that went on, with successors that had come by then
    after_s: float  # Seconds from the notice of the loss until all of them stood at one place, and went on
    whole_step: int | None = None  # The update from which on all workers were there again; None if they never were

    def in_words(self) -> str:
        """Returns a line for people."""
        named = zip(self.nodes, self.causes, strict=True)
        causes = "; ".join(cause if cause.startswith(node) else f"{node}: {cause}" for node, cause in named)
        return f"lost at update {self.step:,}: {causes}; {self.end_in_words()}"

    def end_in_words(self) -> str:
        """Returns the consequence of the loss."""
        went_on = f"went on with {self.workers:,} after {self.after_s:.{2 if self.after_s < 1 else 1}f} s"
        if self.whole_step is None:
            return went_on
        return f"{went_on}; {self.whole_in_words()}"

    def whole_in_words(self) -> str:
        """Returns when all workers were there again; "" if they were not."""
        return "" if self.whole_step is None else f"all workers again at update {self.whole_step:,}"


def replay_end(outlived: tuple[Outlived, ...], *, rebalances: bool) -> str:
    """Returns up to where an attempt can be replayed bit for bit; "" where a loss changes nothing of that.

    Args:
        rebalances: `data.rebalance`: nobody asked for a replay.
    """
    if rebalances or not outlived:
        return ""
    nodes = " and ".join(outlived[0].nodes)
    return (
        f"data.rebalance: off ends at update {outlived[0].step:,}: what {nodes} had left was dealt to the others, so "
        "that a replay of the plan is the same, bit for bit, up to there alone"
    )


def told_since(before: tuple[Outlived, ...], now: tuple[Outlived, ...]) -> list[str]:
    """Returns the lines that tell of what has come after `before`: the loss itself was told when it was noticed."""
    new = now[len(before) :]
    said = [f"{' and '.join(each.nodes)} lost at update {each.step:,}: {each.end_in_words()}" for each in new]
    came = [after for each, after in zip(before, now, strict=False) if each.whole_step != after.whole_step]
    # Several losses may end at one update.
    return [*dict.fromkeys(after.whole_in_words() for after in came), *said]
