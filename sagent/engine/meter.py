"""How many tokens a conversation holds: what the provider last counted, and bytes for what came since."""

from sagent.lib.dataclass import dataclass


@dataclass(slots=True)
class Meter:
    """How many tokens the conversation holds: what the provider last counted, and bytes for what came since."""

    weight: int = 0  # the bound of the last request that was counted
    counted: int = 0  # what the provider said it was
    window: int | None = None  # as an overflow error told it
    most_output: int | None = None  # tokens that may be asked for, as a refusal told it
    shrunk: bool = False  # the conversation no longer begins with what was counted

    def bound(self, weight: int) -> int:
        """The most input tokens a request of this weight can have."""
        if not self.counted or self.shrunk or weight < self.weight:
            return weight
        return min(weight, self.counted + weight - self.weight)

    def estimate(self, weight: int) -> int:
        """How many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted:
            return weight // 3
        if self.shrunk or weight < self.weight:
            return self.counted * weight // self.weight
        return self.counted + (weight - self.weight) // 3

    def learn(self, weight: int, counted: int) -> None:
        """Take over what the provider counted."""
        if counted > 0:
            self.weight, self.counted, self.shrunk = weight, counted, False
