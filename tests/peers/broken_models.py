#!/usr/bin/env python3
"""Writes models that break the ONNX standard in one way each, and valid ones beside them.

usage: tests/peers/broken_models.py FOLDER

Needs the Python package onnx (Debian: python3-onnx). FOLDER/cases.tsv gets a line per model: file, the rule that is broken
('valid' for none), the node and the value where it is, and further rules that the same fault breaks. The archive
tests/data/broken-models.tar.xz is this folder.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CASES = []


def case(rule, node="", value="", also=(), base="net"):
    """Registers a function that breaks a fresh copy of a base model in place (or returns another)."""

    def register(function):
        CASES.append((function.__name__, rule, node, value, tuple(also), base, function))
        return function

    return register


def tensor(name, shape, seed=0):
    return numpy_helper.from_array(np.random.RandomState(seed).randn(*shape).astype(np.float32), name)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=13, ir=8, functions=(), imports=()):
    graph = helper.make_graph(nodes, "net", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*i) for i in imports)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = ir
    return model


def base_net():
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "fc1", transB=1),
        helper.make_node("Relu", ["h"], ["r"], "act"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["z"], "fc2", transB=1),
        helper.make_node("Softmax", ["z"], ["y"], "prob", axis=-1),
    ]
    weights = [tensor("w1", (16, 10)), tensor("b1", (16,)), tensor("w2", (3, 16)), tensor("b2", (3,))]
    return model_of(nodes, [value("x", ["N", 10])], [value("y", ["N", 3])], weights)


def base_if():
    def branch(name, op):
        node = helper.make_node(op, ["x"], [name + "_out"], name)
        return helper.make_graph([node], name, [], [value(name + "_out", ["N"])])

    nodes = [helper.make_node("If", ["c"], ["y"], "choose", then_branch=branch("yes", "Relu"), else_branch=branch("no", "Neg"))]
    return model_of(nodes, [value("c", [], TensorProto.BOOL), value("x", ["N"])], [value("y", ["N"])])


def base_loop():
    body_nodes = [
        helper.make_node("Add", ["s_in", "s_in"], ["s_out"], "double"),
        helper.make_node("Identity", ["go_in"], ["go_out"], "again"),
        helper.make_node("Identity", ["s_out"], ["step"], "keep"),
    ]
    body = helper.make_graph(
        body_nodes, "body",
        [value("i", [], INT64), value("go_in", [], TensorProto.BOOL), value("s_in", [2])],
        [value("go_out", [], TensorProto.BOOL), value("s_out", [2]), value("step", [2])])
    node = helper.make_node("Loop", ["n", "", "s"], ["last", "all"], "loop", body=body)
    return model_of([node], [value("n", [], INT64), value("s", [2])], [value("last", [2]), value("all", ["K", 2])])


def base_function():
    leaky = helper.make_function(
        "mine", "Leaky", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"], "slope")], [helper.make_opsetid("", 16)], ["alpha"])
    reference = leaky.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "alpha", AttributeProto.FLOAT
    call = helper.make_node("Leaky", ["x"], ["y"], "call", domain="mine", alpha=0.5)
    return model_of([call], [value("x", ["N"])], [value("y", ["N"])], opset=16, functions=[leaky], imports=[("mine", 1)])


def sparse(name="sp", dims=(4, 3), indices=(1, 5, 11), values=None):
    values = [1.0] * len(indices) if values is None else values
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), name), ints(name + "_at", indices), list(dims))


def base_sparse():
    model = model_of([helper.make_node("Mul", ["x", "sp"], ["y"], "mask")], [value("x", [4, 3])], [value("y", [4, 3])])
    model.graph.sparse_initializer.append(sparse())
    return model


def base_training():
    model = base_net()
    step = helper.make_graph(
        [helper.make_node("Sub", ["b2", "rate"], ["b2_new"], "descend")], "step", [], [value("b2_new", [3])],
        [tensor("rate", (3,))])
    info = model.training_info.add()
    info.algorithm.CopyFrom(step)
    binding = info.update_binding.add()
    binding.key, binding.value = "b2", "b2_new"
    return model


BASES = {"net": base_net, "if": base_if, "loop": base_loop, "function": base_function, "sparse": base_sparse,
         "training": base_training}


def node(model, name):
    return next(n for n in model.graph.node if n.name == name)


def attribute(owner, name):
    return next(a for a in owner.attribute if a.name == name)


def initializer(model, name):
    return next(t for t in model.graph.initializer if t.name == name)


# The model as a whole

@case("model.ir-version")
def ir_version_missing(m):
    m.ClearField("ir_version")


@case("model.ir-version")
def ir_version_from_the_future(m):
    m.ir_version = 99


@case("model.opset-missing", also=["node.domain-not-imported"])
def no_opset(m):
    del m.opset_import[:]


@case("model.opset-future", value="ai.onnx")
def opset_from_the_future(m):
    m.opset_import[0].version = 99


@case("model.opset-future", value="ai.onnx", also=["node.too-new", "node.domain-not-imported"])
def opset_zero(m):
    m.opset_import[0].version = 0


@case("model.opset-duplicate", value="ai.onnx")
def opset_twice(m):
    m.opset_import.append(helper.make_opsetid("", 13))


@case("model.metadata-duplicate", value="author")
def metadata_twice(m):
    for text in ("a", "b"):
        entry = m.metadata_props.add()
        entry.key, entry.value = "author", text


@case("graph.missing")
def no_graph(m):
    m.ClearField("graph")


# Names, order, scopes

@case("graph.name-missing")
def graph_without_name(m):
    m.graph.name = ""


@case("graph.ssa", node="fc2", value="h")
def two_nodes_give_one_name(m):
    node(m, "fc2").output[0] = "h"
    node(m, "prob").input[0] = "h"


@case("graph.ssa", node="act", value="x")
def node_gives_an_input(m):
    node(m, "act").output[0] = "x"
    node(m, "fc2").input[0] = "x"


@case("graph.ssa", node="act", value="b1")
def node_gives_an_initializer(m):
    node(m, "act").output[0] = "b1"
    node(m, "fc2").input[0] = "b1"


@case("graph.undefined-input", node="act", value="nowhere")
def input_from_nowhere(m):
    node(m, "act").input[0] = "nowhere"


@case("graph.order", node="act", value="h")
def nodes_out_of_order(m):
    nodes = list(m.graph.node)
    del m.graph.node[:]
    m.graph.node.extend([nodes[1], nodes[0], *nodes[2:]])


@case("graph.cycle", node="fc1")
def cycle_of_three(m):
    node(m, "fc1").input[0] = "z"


@case("graph.cycle", node="act")
def node_reads_itself(m):
    node(m, "act").input[0] = "r"


@case("graph.output-undefined", value="nowhere")
def output_from_nowhere(m):
    m.graph.output[0].name = "nowhere"


@case("graph.duplicate-input", value="x")
def input_twice(m):
    m.graph.input.append(value("x", ["N", 10]))


@case("value.name-missing")
def input_without_name(m):
    m.graph.input.append(value("", [1]))


@case("value.type-missing", value="x")
def input_without_type(m):
    m.graph.input[0].ClearField("type")


@case("value.type-missing", value="x")
def input_without_element_type(m):
    m.graph.input[0].type.tensor_type.ClearField("elem_type")


@case("value.shape-missing", value="x")
def input_without_shape(m):
    m.graph.input[0].type.tensor_type.ClearField("shape")


@case("value.shape-missing", value="y")
def output_without_shape(m):
    m.graph.output[0].type.tensor_type.ClearField("shape")


@case("graph.shadowing", node="yes", value="x", base="if")
def branch_hides_an_outer_name(m):
    branch = attribute(node(m, "choose"), "then_branch").g
    branch.node[0].input[0] = "c2"
    branch.node[0].output[0] = "x"
    branch.output[0].name = "x"
    branch.initializer.append(tensor("c2", (2,)))


@case("graph.undefined-input", node="no", value="then_only", base="if")
def branch_reads_the_other_branch(m):
    attribute(node(m, "choose"), "then_branch").g.node.append(helper.make_node("Neg", ["x"], ["then_only"], "extra"))
    attribute(node(m, "choose"), "else_branch").g.node[0].input[0] = "then_only"


@case("graph.order", node="no", value="late", base="if")
def branch_reads_what_comes_later(m):
    attribute(node(m, "choose"), "else_branch").g.node[0].input[0] = "late"
    m.graph.node.append(helper.make_node("Neg", ["x"], ["late"], "later"))


@case("graph.output-undefined", value="lost", base="if")
def branch_output_from_nowhere(m):
    attribute(node(m, "choose"), "then_branch").g.output[0].name = "lost"


@case("graph.name-missing", base="if")
def branch_without_name(m):
    attribute(node(m, "choose"), "then_branch").g.name = ""


# Initializers and tensors

@case("initializer.duplicate", value="w1")
def initializer_twice(m):
    m.graph.initializer.append(tensor("w1", (16, 10)))


@case("initializer.name-missing")
def initializer_without_name(m):
    m.graph.initializer.append(tensor("", (2,)))


@case("initializer.not-an-input", value="w1", also=["model.opset-and-ir"])
def initializer_is_no_input_in_ir_3(m):
    m.ir_version = 3
    for name, shape in (("b1", [16]), ("w2", [3, 16]), ("b2", [3])):
        m.graph.input.append(value(name, shape))


@case("tensor.type", value="b1")
def tensor_without_type(m):
    initializer(m, "b1").ClearField("data_type")


@case("tensor.type", value="b1")
def tensor_of_unknown_type(m):
    initializer(m, "b1").data_type = 77


@case("tensor.data", value="b1")
def tensor_without_data(m):
    initializer(m, "b1").ClearField("raw_data")


@case("tensor.data", value="b1")
def tensor_with_two_data_fields(m):
    initializer(m, "b1").float_data.extend([0.0] * 16)


@case("tensor.data", value="b1")
def tensor_with_the_wrong_field(m):
    t = initializer(m, "b1")
    t.ClearField("raw_data")
    t.int64_data.extend([1] * 16)


@case("tensor.data", value="b1")
def tensor_too_short(m):
    t = initializer(m, "b1")
    t.raw_data = t.raw_data[:-4]


@case("tensor.data", value="b1")
def tensor_typed_too_short(m):
    t = initializer(m, "b1")
    t.ClearField("raw_data")
    t.float_data.extend([1.0] * 15)


@case("tensor.data", value="e")
def empty_tensor_with_data(m):
    t = ints("e", [])
    t.raw_data = b"\0" * 8
    m.graph.initializer.append(t)


@case("tensor.data", value="s")
def strings_as_raw_bytes(m):
    t = TensorProto(name="s", data_type=TensorProto.STRING, dims=[1], raw_data=b"abc")
    m.graph.initializer.append(t)


@case("tensor.shape", value="b1")
def tensor_with_a_negative_dimension(m):
    initializer(m, "b1").dims[0] = -16


@case("tensor.shape", value="b1")
def tensor_whose_size_overflows(m):
    t = initializer(m, "b1")
    del t.dims[:]
    t.dims.extend([1 << 40, 1 << 40])


@case("tensor.external", value="b1")
def external_without_location(m):
    t = initializer(m, "b1")
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL


def external(t, location):
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    entry = t.external_data.add()
    entry.key, entry.value = "location", location


@case("tensor.external", value="b1")
def external_file_missing(m):
    external(initializer(m, "b1"), "no_such_file.bin")


@case("tensor.external", value="b1")
def external_outside_the_folder(m):
    external(initializer(m, "b1"), "../elsewhere.bin")


@case("tensor.external", value="b1")
def external_and_inside(m):
    t = initializer(m, "b1")
    data = t.raw_data
    external(t, "no_such_file.bin")
    t.raw_data = data


# Sparse tensors

def break_sparse(m, **changes):
    del m.graph.sparse_initializer[:]
    m.graph.sparse_initializer.append(sparse(**changes))


@case("sparse.order", value="sp", base="sparse")
def sparse_not_sorted(m):
    break_sparse(m, indices=(5, 1, 11))


@case("sparse.order", value="sp", base="sparse")
def sparse_index_twice(m):
    break_sparse(m, indices=(1, 1, 11))


@case("sparse.range", value="sp", base="sparse")
def sparse_index_out_of_range(m):
    break_sparse(m, indices=(1, 5, 12))


@case("sparse.range", value="sp", base="sparse")
def sparse_pair_out_of_range(m):
    break_sparse(m, indices=((0, 1), (1, 3), (3, 2)), values=[1.0] * 3)


@case("sparse.indices", value="sp", base="sparse")
def sparse_counts_differ(m):
    break_sparse(m, indices=(1, 5), values=[1.0] * 3)


@case("sparse.indices", value="sp", base="sparse")
def sparse_indices_of_another_type(m):
    indices = m.graph.sparse_initializer[0].indices
    indices.CopyFrom(numpy_helper.from_array(np.array([1, 5, 11], np.int32), "sp_at"))


@case("sparse.values", value="sp", base="sparse")
def sparse_values_of_rank_two(m):
    values = m.graph.sparse_initializer[0].values
    values.CopyFrom(tensor("sp", (3, 1)))


@case("sparse.dims", value="sp", base="sparse")
def sparse_without_dims(m):
    del m.graph.sparse_initializer[0].dims[:]


@case("sparse.dims", value="sp", base="sparse")
def sparse_with_a_zero_dimension(m):
    m.graph.sparse_initializer[0].dims[0] = 0


# Nodes and schemas

@case("node.op-type-missing", node="act")
def node_without_operator(m):
    node(m, "act").op_type = ""


@case("node.empty", node="nothing", also=["node.inputs", "node.outputs"])
def node_without_inputs_and_outputs(m):
    m.graph.node.append(helper.make_node("Relu", [], [], "nothing"))


@case("node.unknown-operator", node="act")
def operator_misspelled(m):
    node(m, "act").op_type = "Rellu"


@case("node.too-new", node="act")
def operator_too_new(m):
    node(m, "act").op_type = "Mish"


@case("node.deprecated", node="up")
def operator_deprecated(m):
    m.graph.initializer.append(tensor("scales", (4,)))
    m.graph.node.append(helper.make_node("Upsample", ["h", "scales"], ["u"], "up"))


@case("node.domain-not-imported", node="act")
def domain_not_imported(m):
    node(m, "act").domain = "ai.onnx.ml"
    node(m, "act").op_type = "Normalizer"


@case("node.inputs", node="fc1")
def too_few_inputs(m):
    del node(m, "fc1").input[1:]


@case("node.inputs", node="act")
def too_many_inputs(m):
    node(m, "act").input.append("x")


@case("node.outputs", node="act")
def too_many_outputs(m):
    node(m, "act").output.append("r2")


@case("node.outputs", node="extra")
def too_few_outputs(m):
    m.graph.node.append(helper.make_node("Relu", ["h"], [], "extra"))


@case("node.input-missing", node="fc1", value="B")
def required_input_left_out(m):
    node(m, "fc1").input[1] = ""


@case("node.output-missing", node="extra", value="Y")
def required_output_left_out(m):
    m.graph.node.append(helper.make_node("Relu", ["h"], [""], "extra"))


@case("node.input-type", node="act", value="h8")
def type_not_allowed(m):
    m.graph.node.insert(1, helper.make_node("Cast", ["h"], ["h8"], "narrow", to=TensorProto.UINT8))
    node(m, "act").input[0] = "h8"


@case("node.types-differ", node="fc1", value="b1")
def types_differ(m):
    initializer(m, "b1").CopyFrom(numpy_helper.from_array(np.zeros(16, np.float64), "b1"))


# Attributes

@case("attribute.unknown", node="fc1", value="transC")
def attribute_unknown(m):
    node(m, "fc1").attribute.append(helper.make_attribute("transC", 1))


@case("attribute.unknown", node="sum", value="axes")
def attribute_of_an_older_opset(m):
    m.graph.node.append(helper.make_node("ReduceSum", ["h"], ["s"], "sum", axes=[0]))


@case("attribute.type", node="fc1", value="transB")
def attribute_of_another_type(m):
    attribute(node(m, "fc1"), "transB").CopyFrom(helper.make_attribute("transB", 1.0))


@case("attribute.missing", node="joined", value="axis")
def attribute_missing(m):
    m.graph.node.append(helper.make_node("Concat", ["h", "h"], ["hh"], "joined"))


@case("attribute.duplicate", node="fc1", value="transB")
def attribute_twice(m):
    node(m, "fc1").attribute.append(helper.make_attribute("transB", 1))


@case("attribute.name-missing", node="fc1")
def attribute_without_name(m):
    attribute(node(m, "fc1"), "transB").name = ""


@case("attribute.malformed", node="fc1", value="transB")
def attribute_with_two_values(m):
    attribute(node(m, "fc1"), "transB").f = 1.0


@case("attribute.malformed", node="fc1", value="transB")
def attribute_type_contradicts_value(m):
    attribute(node(m, "fc1"), "transB").type = AttributeProto.FLOAT


@case("attribute.malformed", node="fc1", value="transB")
def attribute_without_type(m):
    attribute(node(m, "fc1"), "transB").ClearField("type")


@case("attribute.malformed", node="const", value="value")
def attribute_says_tensor_and_holds_none(m):
    n = helper.make_node("Constant", [], ["k"], "const")
    a = n.attribute.add()
    a.name, a.type = "value", AttributeProto.TENSOR
    m.graph.node.append(n)


@case("tensor.data", node="const", value="value")
def attribute_with_a_broken_tensor(m):
    t = ints("", [1, 2])
    t.raw_data = t.raw_data[:-1]
    m.graph.node.append(helper.make_node("Constant", [], ["k"], "const", value=t))


@case("attribute.reference", node="act", value="alpha")
def reference_outside_a_function(m):
    n = node(m, "act")
    n.op_type = "LeakyRelu"
    a = n.attribute.add()
    a.name, a.ref_attr_name, a.type = "alpha", "alpha", AttributeProto.FLOAT


# Control flow

@case("body.outputs", node="choose", value="then_branch", base="if")
def branch_with_too_many_outputs(m):
    branch = attribute(node(m, "choose"), "then_branch").g
    branch.output.append(value("x2", ["N"]))
    branch.node.append(helper.make_node("Neg", ["x"], ["x2"], "extra"))


@case("body.inputs", node="choose", value="else_branch", base="if")
def branch_with_an_input(m):
    attribute(node(m, "choose"), "else_branch").g.input.append(value("extra", ["N"]))


@case("body.inputs", node="loop", value="body", base="loop")
def loop_body_with_too_few_inputs(m):
    body = attribute(node(m, "loop"), "body").g
    body.node[0].input[0] = body.node[0].input[1] = "s"
    del body.input[2]


@case("body.outputs", node="loop", value="body", base="loop")
def loop_body_with_too_few_outputs(m):
    del attribute(node(m, "loop"), "body").g.output[2]


# Functions

@case("function.ir-version", base="function", also=["model.opset-and-ir"])
def function_before_ir_8(m):
    m.ir_version = 7


@case("function.name-missing", base="function", also=["node.unknown-domain"])
def function_without_name(m):
    m.functions[0].name = ""


@case("function.duplicate", base="function")
def function_twice(m):
    m.functions.append(m.functions[0])


@case("function.input-duplicate", value="a", base="function")
def function_input_twice(m):
    m.functions[0].input.append("a")


@case("function.output-duplicate", value="b", base="function")
def function_output_twice(m):
    m.functions[0].output.append("b")


@case("function.attribute-duplicate", value="alpha", base="function")
def function_attribute_twice(m):
    m.functions[0].attribute.append("alpha")


@case("function.output-undefined", value="nowhere", base="function")
def function_output_from_nowhere(m):
    m.functions[0].output[0] = "nowhere"


@case("graph.undefined-input", node="slope", value="x", base="function")
def function_reads_an_outer_value(m):
    m.functions[0].node[0].input[0] = "x"


@case("function.recursion", base="function", also=["node.domain-not-imported"])
def function_calls_itself(m):
    f = m.functions[0]
    f.node.append(helper.make_node("Leaky", ["b"], ["c"], "again", domain="mine", alpha=0.5))
    f.output[0] = "c"


@case("node.domain-not-imported", node="slope", base="function")
def function_without_opset(m):
    del m.functions[0].opset_import[:]


@case("function.opset", node="slope", base="function")
def function_of_another_opset(m):
    m.functions[0].opset_import[0].version = 15


@case("attribute.reference", node="slope", value="alpha", base="function")
def function_refers_to_what_it_does_not_declare(m):
    m.functions[0].node[0].attribute[0].ref_attr_name = "beta"


@case("call.inputs", node="call", base="function")
def call_with_too_many_inputs(m):
    node(m, "call").input.append("x")


@case("call.outputs", node="call", base="function")
def call_with_too_many_outputs(m):
    node(m, "call").output.append("y2")


@case("call.attribute", node="call", value="alpha", base="function")
def call_without_its_attribute(m):
    del node(m, "call").attribute[:]


# Training

@case("training.binding", value="nobody", base="training")
def training_binds_no_initializer(m):
    m.training_info[0].update_binding[0].key = "nobody"


@case("training.binding", value="b2", base="training")
def training_binds_no_output(m):
    m.training_info[0].update_binding[0].value = "nobody"


@case("graph.undefined-input", node="descend", value="nobody", base="training")
def training_graph_reads_nothing(m):
    m.training_info[0].algorithm.node[0].input[1] = "nobody"


# What the operators give against what is declared

@case("inference.shape", node="fc1", value="h")
def declared_shape_is_wrong(m):
    m.graph.value_info.append(value("h", ["N", 17]))


@case("inference.shape", node="fc2", value="z")
def declared_output_rank_is_wrong(m):
    m.graph.output.append(value("z", ["N", 3, 1]))


@case("node.output-type", node="fc1", value="h")
def declared_type_is_wrong(m):
    m.graph.value_info.append(value("h", ["N", 16], TensorProto.DOUBLE))


@case("node.output-type", node="act", value="r")
def declared_output_type_is_wrong(m):
    m.graph.output.append(value("r", ["N", 16], TensorProto.INT8))


@case("inference.node", node="fc2")
def product_of_shapes_that_do_not_fit(m):
    initializer(m, "w2").CopyFrom(tensor("w2", (3, 15)))


@case("inference.node", node="sum")
def sum_of_shapes_that_do_not_broadcast(m):
    m.graph.initializer.append(tensor("five", (5,)))
    m.graph.node.append(helper.make_node("Add", ["h", "five"], ["s"], "sum"))


@case("inference.node", node="turn")
def transpose_with_a_bad_permutation(m):
    m.graph.node.append(helper.make_node("Transpose", ["h"], ["t"], "turn", perm=[0, 0]))


@case("inference.node", node="joined")
def concat_of_shapes_that_do_not_fit(m):
    m.graph.initializer.append(tensor("wide", (2, 3, 4)))
    m.graph.node.append(helper.make_node("Concat", ["h", "wide"], ["j"], "joined", axis=0))


@case("inference.node", node="soft")
def axis_out_of_range(m):
    m.graph.node.append(helper.make_node("Softmax", ["h"], ["q"], "soft", axis=5))


@case("inference.node", node="shape")
def reshape_to_another_size(m):
    m.graph.initializer.append(ints("to", [7, 3]))
    m.graph.node.append(helper.make_node("Reshape", ["w2", "to"], ["q"], "shape"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, make in BASES.items():
        (folder / f"valid_{name}.onnx").write_bytes(make().SerializeToString(deterministic=True))
        lines.append(f"valid_{name}.onnx\tvalid\t\t\t")
    for name, rule, at_node, at_value, also, base, change in CASES:
        model = BASES[base]()
        model = change(model) or model
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
        lines.append("\t".join([f"{name}.onnx", rule, at_node, at_value, ",".join(also)]))
    (folder / "cases.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} broken and {len(BASES)} valid models in {folder}")


if __name__ == "__main__":
    main()
