"""What runs have learnt about a pair, kept in a file for the next: costs and calibrations."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specli.decoding.calibration import Calibration
from specli.decoding.costs import CostCurve, Costs
from specli.whole_file import write_whole

_SCHEMA = "specli.memory/4"


@dataclass
class Learnt:
    """What is known about a pair.

    Attributes:
        costs: What decoding costs here.
        calibrations: By drafter, how its confidences turn out.
    """

    costs: Costs
    calibrations: dict[str, Calibration] = field(default_factory=dict)


def memory_file(folder: Path, setup: Mapping[str, Any]) -> Path:
    """The file for a pair as it is set up: its models, the build, and all flags that matter."""
    key = hashlib.sha256(json.dumps(setup, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return folder / f"{key}.json"


def save(path: Path, learnt: Learnt) -> None:
    """Write a memory file; a reader never sees half of it."""
    costs = learnt.costs
    document = {
        "schema": _SCHEMA,
        "target_seconds": costs.target.known,
        "step_seconds": costs.step_seconds,
        "read_seconds": costs.read_seconds,
        "save_seconds": costs.save_seconds,
        "calibrations": {
            name: {"prior": calibration.prior, **calibration.tables}
            for name, calibration in learnt.calibrations.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document))


def load(path: Path) -> Learnt | None:
    """Read a memory file; None where there is none.

    Raises:
        ValueError: It is none of this version's, or damaged.
        OSError: It cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        document = json.loads(text)
        if document["schema"] != _SCHEMA:
            raise ValueError(f"of another version, {document['schema']}")
        curve = CostCurve({_width(width): _positive(value) for width, value in document["target_seconds"].items()})
        curve.seconds(1)
        steps, reads = (
            {str(name): _positive(value) for name, value in document[key].items()}
            for key in ("step_seconds", "read_seconds")
        )
        save_seconds = _positive(document["save_seconds"]) if document["save_seconds"] else 0.0
        calibrations = {
            str(name): Calibration.of(tables.pop("prior"), tables) for name, tables in document["calibrations"].items()
        }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"damaged: {error!r}") from error
    return Learnt(Costs(curve, steps, reads, save_seconds), calibrations)


def _width(text: str) -> int:
    if (width := int(text)) < 1:
        raise ValueError(f"damaged: a forward pass over {width} tokens")
    return width


def _positive(value: Any) -> float:
    number = float(value)
    if not 0.0 < number < 1e6:
        raise ValueError(f"damaged: {number} seconds")
    return number
