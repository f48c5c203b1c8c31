"""all-MiniLM-L6-v2 as an ONNX graph with 8-bit weights, made from the float32 ones.

Weights of matrix products are quantised for each output channel (symmetric, Jacob et al., "Quantization and Training of
Neural Networks", CVPR 2018), activations as they come; the rest stays float32. Codes have 7 bits, so that the sums of
processors without 8-bit dot products do not overflow and every machine makes the same vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from libs.embedding.model import Float32s

LARGEST_CODE = 63
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
_OPSET = 20
_IR_VERSION = 10


class Graph:
    """A graph that grows node by node; values are named by the node that makes them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def add_constant(self, values: NDArray[Any] | np.generic) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; return the name of its first output. The others are `name.1`, `name.2`."""
        name = f"n{len(self.nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return name

    def add_linear(self, value: str, weight: Float32s, bias: Float32s) -> str:
        """Add the product of `value` and `weight` (outputs, inputs) in 8-bit codes, plus `bias`; return its name."""
        scales = np.abs(weight).max(axis=1) / np.float32(LARGEST_CODE)
        codes = np.rint(weight / scales[:, np.newaxis]).astype(np.int8)
        quantised = self.add("DynamicQuantizeLinear", value, outputs=3)
        product = self.add("MatMulInteger", quantised, self.add_constant(codes.T), f"{quantised}.2")
        scale = self.add("Mul", f"{quantised}.1", self.add_constant(scales))
        return self.add(
            "Add", self.add("Mul", self.add("Cast", product, to=TensorProto.FLOAT), scale), self.add_constant(bias)
        )


def create_quantised_model(tensors: Mapping[str, Float32s]) -> bytes:
    """Return the model, serialized.

    Inputs: the token ids `numbers` (texts, length), the positions `places` (length,) and the attention mask `present`
    (texts, length). Output: `vectors`.
    """
    graph = Graph()
    hidden = _add_embedding_nodes(graph, tensors)
    negative = graph.add("Sub", graph.add_constant(np.float32(1.0)), "present")
    absent = graph.add("Mul", negative, graph.add_constant(np.float32(-1e9)))
    absent = graph.add("Unsqueeze", absent, graph.add_constant(np.array([1, 2])))
    for number in range(LAYERS):
        hidden = _add_layer(graph, tensors, f"encoder.layer.{number}.", hidden, absent)
    _add_pooling(graph, hidden)
    inputs = [
        helper.make_tensor_value_info("numbers", TensorProto.INT64, ["texts", "length"]),
        helper.make_tensor_value_info("places", TensorProto.INT64, ["length"]),
        helper.make_tensor_value_info("present", TensorProto.FLOAT, ["texts", "length"]),
    ]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", WIDTH])]
    made = helper.make_graph(graph.nodes, "minilm", inputs, outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    content: bytes = model.SerializeToString()
    return content


def _add_embedding_nodes(graph: Graph, tensors: Mapping[str, Float32s]) -> str:
    words = graph.add("Gather", graph.add_constant(tensors["embeddings.word_embeddings.weight"]), "numbers")
    # All text is of the first type, so its embedding is added to those of the positions.
    kind = tensors["embeddings.token_type_embeddings.weight"][0]
    positions = graph.add(
        "Gather", graph.add_constant(tensors["embeddings.position_embeddings.weight"] + kind), "places"
    )
    return _normalise_layer(graph, graph.add("Add", words, positions), tensors, "embeddings.LayerNorm")


def _add_layer(graph: Graph, tensors: Mapping[str, Float32s], prefix: str, hidden: str, absent: str) -> str:
    def linear(value: str, name: str) -> str:
        return graph.add_linear(value, tensors[f"{prefix}{name}.weight"], tensors[f"{prefix}{name}.bias"])

    query, key, value = (
        _add_heads(graph, linear(hidden, f"attention.self.{kind}"), order)
        for kind, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3)))
    )
    scale = graph.add_constant(np.float32((WIDTH // HEADS) ** -0.5))
    scores = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), scale), absent)
    attended_values = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    together = graph.add("Transpose", attended_values, perm=(0, 2, 1, 3))
    together = graph.add("Reshape", together, graph.add_constant(np.array([0, 0, WIDTH])))
    attended = graph.add("Add", hidden, linear(together, "attention.output.dense"))
    joined = _normalise_layer(graph, attended, tensors, f"{prefix}attention.output.LayerNorm")
    widened = graph.add("Gelu", linear(joined, "intermediate.dense"))
    narrowed = graph.add("Add", joined, linear(widened, "output.dense"))
    return _normalise_layer(graph, narrowed, tensors, f"{prefix}output.LayerNorm")


def _add_heads(graph: Graph, value: str, order: Sequence[int]) -> str:
    split = graph.add("Reshape", value, graph.add_constant(np.array([0, 0, HEADS, WIDTH // HEADS])))
    return graph.add("Transpose", split, perm=order)


def _normalise_layer(graph: Graph, value: str, tensors: Mapping[str, Float32s], name: str) -> str:
    weight, bias = graph.add_constant(tensors[f"{name}.weight"]), graph.add_constant(tensors[f"{name}.bias"])
    return graph.add("LayerNormalization", value, weight, bias, axis=-1, epsilon=EPSILON)


def _add_pooling(graph: Graph, hidden: str) -> None:
    """Add the mean over the present words, as unit vectors."""
    weights = graph.add("Unsqueeze", "present", graph.add_constant(np.array([2])))
    total = graph.add("ReduceSum", graph.add("Mul", hidden, weights), graph.add_constant(np.array([1])), keepdims=0)
    count = graph.add("ReduceSum", "present", graph.add_constant(np.array([1])), keepdims=1)
    mean = graph.add("Div", total, count)
    length = graph.add("ReduceL2", mean, graph.add_constant(np.array([1])), keepdims=1)
    graph.nodes.append(helper.make_node("Div", [mean, length], ["vectors"]))
