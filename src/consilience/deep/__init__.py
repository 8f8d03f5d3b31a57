"""Networks trained with labels of several annotators; they need PyTorch (``pip install 'consilience[deep]'``)."""

from __future__ import annotations

from consilience.deep.crowd_layer import CrowdLayer, MajorityNetwork

__all__ = ["CrowdLayer", "MajorityNetwork"]
