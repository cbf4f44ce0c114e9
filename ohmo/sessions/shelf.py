"""Transcripts of threads that do not run, so that the next turn need not read them again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from ohmo.contracts.store import Claim
from ohmo.sessions.transcript import Transcript


@dataclass(slots=True)
class Shelf:
    """At most ``limit`` bytes of them, the longest unused first to go."""

    limit: int
    transcripts: OrderedDict[str, Transcript] = field(default_factory=OrderedDict[str, Transcript])
    weight: int = 0

    def take(self, claim: Claim) -> Transcript:
        """The cached one, when nobody else had the thread in between and the session is the same;
        else an empty one."""
        known = self.transcripts.pop(claim.thread, None)
        if known is not None:
            self.weight -= known.weight
            if known.session_seq == claim.session_seq and known.generation == claim.generation - 1:
                return known
        return Transcript(claim.session_seq)

    def clear(self) -> None:
        self.transcripts.clear()
        self.weight = 0

    def put(self, claim: Claim, transcript: Transcript) -> None:
        transcript.generation = claim.generation
        self.transcripts[claim.thread] = transcript
        self.weight += transcript.weight
        while self.weight > self.limit and len(self.transcripts) > 1:
            _, oldest = self.transcripts.popitem(last=False)
            self.weight -= oldest.weight
