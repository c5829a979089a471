"""The account of a reading, carried by the lineage itself so that an index tells the same as its log."""

from __future__ import annotations

from typing import Any

import numpy as np

from prefixscope.index.lineage import OUTPUTS, Lineage
from prefixscope.results import InputReport, Skip, Warned

__all__ = ["input_report"]


def input_report(lineage: Lineage) -> InputReport:
    """The account of the reading that a lineage carries in its provenance, equal from a log and from its index."""
    head: dict[str, Any] = lineage.provenance.get("input", {})
    known_times = len(lineage) > 0 and head.get("missing_times", 0) < len(lineage)
    outputs = np.bincount(lineage.output, minlength=len(OUTPUTS)).tolist()
    return InputReport(
        files=tuple(head.get("files", ())),
        formats=tuple(head.get("formats", ())),
        tier=int(lineage.tier.max()) if len(lineage) else None,
        requests_read=head.get("requests_read", len(lineage)),
        requests_analyzed=len(lineage),
        skipped=tuple(Skip(*skip) for skip in head.get("skipped", ())),
        warnings=tuple(
            Warned(warning["reason"], {key: value for key, value in warning.items() if key != "reason"})
            for warning in head.get("warnings", ())
        ),
        time_is_relative=head.get("time_is_relative", False),
        ties=head.get("ties", 0),
        first_time_ns=int(lineage.time_ns[0]) if known_times else None,
        last_time_ns=int(lineage.time_ns[-1]) if known_times else None,
        outputs={name: outputs[code] for code, name in enumerate(OUTPUTS)},
    )
