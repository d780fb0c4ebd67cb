"""An import contract whose layer `*` is all modules that the other layers do not name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grimp
from importlinter import ContractCheck
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail

REST = ModuleTail("*")


class LayersWithRest(LayersContract):
    """Layers within a container. The layer `*` is its other modules, which are independent of each other.

    A new folder of the container therefore needs no entry in the contract.
    """

    type_name = "layers_with_rest"
    layers: Any
    containers: Any

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Check the layers in the graph of imports."""
        layers: Sequence[Layer] = self.layers
        (container,) = self.containers
        named = {tail.name for layer in layers for tail in layer.module_tails}
        children = {module.rpartition(".")[2] for module in graph.find_children(container.expression)}
        rest = Layer({ModuleTail(name) for name in children - named})
        self.layers = [rest if REST in layer.module_tails else layer for layer in layers]
        return super().check(graph, verbose)
