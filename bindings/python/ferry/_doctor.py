"""What will hurt in deployment, and the fix."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Sequence

from . import _ferry
from ._report import finding_text, place_text, table
from ._session import example_model, model_source  # noqa: F401 - for the examples
from ._tools import name_of


@dataclass(frozen=True)
class Finding:
    """One thing that will hurt: what, where, what it was seen by, and what to do."""

    lint: str
    severity: str
    message: str
    remedy: str
    fixable: bool
    evidence: dict[str, str] = field(default_factory=dict)
    graph: str = ""
    node: str = ""
    op_type: str = ""
    value: str = ""

    @property
    def place(self) -> str:
        return place_text(self)

    def __str__(self) -> str:
        return finding_text(self, self.lint)


@dataclass(frozen=True)
class ProofStep:
    """One thing that was run to see that a mended model is as good as the original."""

    what: str
    holds: bool
    max_abs: float
    detail: str = ""


@dataclass(frozen=True)
class Mending:
    """What became of one lint's fix."""

    lint: str
    applied: bool
    changes: list[str]
    refusals: list[str]
    proof: list[ProofStep]

    def __str__(self) -> str:
        lines = [f"{self.lint}: {'fixed' if self.applied else 'not fixed'}", *(f"    {text}" for text in self.changes),
                 *(f"    not: {text}" for text in self.refusals)]
        lines += [f"    {'holds' if step.holds else 'does NOT hold'}: {step.what} (largest difference {step.max_abs:.3g})"
                  for step in self.proof]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the doctor says about a model. True when nothing should keep it from being deployed."""

    model: str
    findings: list[Finding]
    mendings: list[Mending]
    left: list[Finding]
    """What is still found after the fixes; the same as `findings` when none were asked for."""
    fixed: str = ""
    """The file that the mended model was written to."""

    @property
    def good(self) -> bool:
        return all(finding.severity == "note" for finding in self.left)

    def __bool__(self) -> bool:
        return self.good

    def _verdict(self) -> str:
        counts = [f"{number} {what}{'s' if number != 1 else ''}" for what in ("error", "warning", "note")
                  if (number := sum(finding.severity == what for finding in self.left))]
        return f"{self.fixed or self.model}: {', '.join(counts) or 'nothing to report'}"

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.findings), *map(str, self.mendings), self._verdict()])

    def _repr_html_(self) -> str:
        rows = [(f.severity, f.place, f.message, f.remedy, f.lint) for f in self.findings]
        html = table(rows, ("severity", "place", "finding", "remedy", "lint") if rows else (), self._verdict())
        if self.mendings:
            html += table([(m.lint, "fixed" if m.applied else "not fixed", "; ".join(m.changes + m.refusals))
                           for m in self.mendings], ("lint", "", "what was done"))
        return html


def doctor(model: Any, *, data: Sequence[Any] = (), targets: Sequence[str] = (), lints: Sequence[str] = (),
           fix: str | os.PathLike[str] | None = None) -> Diagnosis:
    """Says what will hurt in deployment: training mode, a baked batch size, missing shapes, waste, and more.

    `data` are .npz recordings to try the model with (without any, inputs are generated), `targets` the runtimes it is
    for, `lints` the names of those to apply (all). With `fix`, what can be mended is mended, proved by running, and the
    result is written there.

    >>> bool(doctor(example_model(), lints=["training-mode"]))
    True
    """
    files = [os.fspath(path) for path in ([data] if isinstance(data, (str, os.PathLike)) else data)]
    fixed = "" if fix is None else os.fsdecode(os.fspath(fix))
    said = _ferry.doctor(model_source(model), files, list(targets), list(lints), fixed)
    mendings = [Mending(**{**mending, "proof": [ProofStep(**step) for step in mending["proof"]]})
                for mending in said["mendings"]]
    return Diagnosis(name_of(model), [Finding(**finding) for finding in said["findings"]], mendings,
                     [Finding(**finding) for finding in said["left"]], fixed)
