#!/usr/bin/env python3
"""Programs for the fuzzer of src/pt2: make_pt2_corpus.py tests/fuzz/corpus-pt2

Each is the text of models/model.json; the archive around it has the weights "w" and "v" of 16
numbers and the constant "c" of 4 (tests/unit/pth_make.h).  They use each kind of argument, op in
place, view, subgraph and computed constant once; needs no PyTorch.
"""
import json
import sys
from pathlib import Path

N = {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 2}}}


def times(n):
    text = "Mul(Integer(%d), Symbol('s77', positive=True, integer=True))" % n
    return {"as_expr": {"expr_str": text, "hint": {"as_int": 2 * n}}}


class Program:
    def __init__(self):
        self.values, self.ints, self.nodes, self.ins, self.outs = {}, {}, [], [], []
        self.value("x", N, 4)
        self.ins.append({"user_input": {"arg": self.tensor("x")}})

    def tensor(self, name):
        return {"as_tensor": {"name": name}}

    def value(self, name, *sizes, dtype=7):
        sizes = [n if isinstance(n, dict) else {"as_int": n} for n in sizes]
        strides, step = [], 1
        for n in reversed(sizes):
            strides.insert(0, {"as_int": step} if isinstance(step, int) else step)
            step = step * n["as_int"] if "as_int" in n and isinstance(step, int) else times(step if isinstance(step, int) else 1)
        self.values[name] = dict(dtype=dtype, sizes=sizes, requires_grad=False, device={"type": "cpu", "index": None}, strides=strides, storage_offset={"as_int": 0}, layout=7)
        return name

    def state(self, kind, name, *sizes):
        key = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}[kind]
        self.value(name, *sizes)
        spec = {"arg": {"name": name}, key: name}
        if kind == "buffer":
            spec["persistent"] = True
        self.ins.insert(0, {kind: spec})

    def node(this, op, outs, **args):
        def arg(v):
            if isinstance(v, str):
                return this.tensor(v)
            if isinstance(v, bool):
                return {"as_bool": v}
            if isinstance(v, int):
                return {"as_int": v}
            if isinstance(v, float):
                return {"as_float": v}
            if isinstance(v, dict):
                return v
            if isinstance(v, list) and v and isinstance(v[0], str):
                return {"as_tensors": [{"name": n} for n in v]}
            if isinstance(v, list) and any(isinstance(n, dict) for n in v):
                return {"as_sym_ints": [n if isinstance(n, dict) else {"as_int": n} for n in v]}
            return {"as_ints": v}

        made = {"as_tensors": [{"name": n} for n in outs]} if isinstance(outs, list) else this.tensor(outs)
        this.nodes.append(
            dict(
                target="torch.ops.aten." + op,
                inputs=[{"name": k.rstrip("_"), "arg": arg(v), "kind": 1} for k, v in args.items()],
                outputs=[made],
                metadata={"nn_module_stack": "L__self__,,Net;L__self__a.0,a.0,torch.nn.Linear"},
            )
        )

    def out(self, name):
        self.outs.append({"user_output": {"arg": self.tensor(name)}})

    def graph(self):
        return dict(inputs=[], outputs=[], nodes=self.nodes, tensor_values=self.values, sym_int_values=self.ints)

    def text(self):
        spec = '[1, {"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]'
        program = dict(
            schema_version={"major": 8, "minor": 20},
            torch_version="2.15.0",
            graph_module=dict(graph=self.graph(), signature=dict(input_specs=self.ins, output_specs=self.outs), module_call_graph=[{"fqn": "", "signature": {"out_spec": spec}}]),
        )
        return json.dumps(program, separators=(",", ":"))


def arguments():
    p = Program()
    p.state("parameter", "w", 16)
    p.state("parameter", "v", 16)
    p.ints["n"] = N
    p.value("a", N, 2, 2)
    p.node("view.default", "a", self="x", size=[{"as_name": "n"}, -1, 2])
    p.value("b", N, 2, 2)
    p.node("clamp.default", "b", self="a", min={"as_float": "-Infinity"}, max={"as_none": True})
    for name in "c1", "c2":
        p.value(name, N, 1, 2)
    p.node("split.Tensor", ["c1", "c2"], self="b", split_size=1, dim=1)
    p.value("d", N, 2, 2)
    p.node("cat.default", "d", tensors=["c1", "c2"], dim=-2)
    p.value("e", N, 2, 2)
    p.node("gelu.default", "e", self="d", approximate={"as_string": "tanh"})
    p.value("f", N, 2, 2, dtype=8)
    p.node("to.dtype", "f", self="e", dtype={"as_scalar_type": 8}, memory_format={"as_memory_format": 1})
    p.value("g", N, 4)
    p.node("linear.default", "g", input="x", weight="w", bias="v")
    p.value("h", N, 2, 2)
    p.node("index.Tensor", "h", self="e", indices={"as_optional_tensors": [{"as_none": True}, {"as_tensor": {"name": "w"}}]})
    p.value("i", N, 4)
    p.node("custom.op", "i", a={"as_complex": {"real": 1.0, "imag": 2.0}}, b={"as_floats": [1.0, "NaN"]}, c={"as_bools": [True]}, d={"as_device": {"type": "cpu", "index": None}}, e={"as_layout": 7}, f={"as_sym_int": {"as_name": "n"}}, g={"as_strings": ["a"]}, h="h", k="g")
    p.out("i")
    p.out("f")
    return p


def changes():
    p = Program()
    p.value("a", N, 4)
    p.node("mul.Tensor", "a", self="x", other=2.0)
    p.value("b", N, 4)
    p.node("relu_.default", "b", self="a")
    p.value("c", N, 2)
    p.node("slice.Tensor", "c", self="a", dim=1, start=1, end=3)
    p.value("d", N)
    p.node("select.int", "d", self="c", dim=1, index=0)
    p.value("e", N)
    p.node("fill_.Scalar", "e", self="d", value=1)
    p.value("f", 4, N)
    p.node("t.default", "f", self="a")
    p.value("g", 4, N)
    p.node("copy_.default", "g", self="f", src="f")
    p.value("h", N, 2, 2)
    p.node("view.default", "h", self="b", size=[-1, 2, 2])
    p.value("i", N, 2, 2)
    p.node("add_.Tensor", "i", self="h", other="h", alpha=2)
    for name in "j", "k":
        p.value(name, N, 2)
    p.node("chunk.default", ["j", "k"], self="a", chunks=2, dim=1)
    p.value("l", N, 2)
    p.node("zero_.default", "l", self="k")
    p.value("m", N, 4)
    p.node("reshape.default", "m", self="f", shape=[-1, 4])
    p.out("a")
    p.out("c")
    p.out("m")
    return p


def wrapped():
    p, inner = Program(), Program()
    inner.value("y", N, 4)
    inner.node("tanh.default", "y", self="x")
    for name in "y", "z":
        p.value(name, N, 4)
    graph = inner.graph()
    graph["inputs"], graph["outputs"] = [p.tensor("x")], [p.tensor("y")]
    graph = {"as_graph": {"name": "g", "graph": graph}}
    for op, flags, out in ("set_grad_enabled", [False], "y"), ("autocast", ["cpu", 13, True, False], "z"):
        flags = [{"as_bool": f} if isinstance(f, bool) else {"as_string": f} if isinstance(f, str) else {"as_scalar_type": f} for f in flags]
        p.nodes.append(dict(target="torch.ops.higher_order.wrap_with_" + op, inputs=[{"name": "", "arg": a, "kind": 1} for a in flags + [graph, p.tensor("x" if out == "y" else "y")]], outputs=[{"as_tensors": [{"name": out}]}], metadata={}))
    p.out("z")
    return p


def constants():
    p = Program()
    p.state("tensor_constant", "c", 4)
    p.state("buffer", "w", 16)
    p.value("a", 6, dtype=5)
    p.node("arange.default", "a", end=6)
    p.value("b", 2, 3, dtype=5)
    p.node("view.default", "b", self="a", size=[2, -1])
    p.value("d", 3, 2, dtype=5)
    p.node("permute.default", "d", self="b", dims=[1, 0])
    p.value("e", 3, 2, dtype=5)
    p.node("tril.default", "e", self="d", diagonal=-1)
    p.value("f", 3, 2, dtype=12)
    p.node("eq.Scalar", "f", self="e", other=0)
    p.value("g", 3, 2)
    p.node("full.default", "g", size=[3, 2], fill_value=1.5)
    p.value("h", 3, 2)
    p.node("masked_fill.Scalar", "h", self="g", mask="f", value={"as_float": "-Infinity"})
    p.value("i", 2, dtype=5)
    p.node("select.int", "i", self="e", dim=0, index=2)
    p.value("j", 2)
    p.node("index.Tensor", "j", self="c", indices={"as_optional_tensors": [{"as_tensor": {"name": "i"}}]})
    p.value("k", 3, 4)
    p.node("cat.default", "k", tensors=["h", "h"], dim=1)
    p.value("l", 3, 4)
    p.node("roll.default", "l", self="k", shifts=[1, -1], dims=[0, 1])
    p.value("m", 3, 6)
    p.node("pad.default", "m", self="l", pad=[1, 1])
    p.value("n", 3, 6)
    p.node("cumsum.default", "n", self="m", dim=-1)
    p.value("o", 6)
    p.node("sum.dim_IntList", "o", self="n", dim=[0])
    p.value("q", N, 6)
    p.node("expand.default", "q", self="o", size=[{"as_name": "s"}, 6])
    p.ints["s"] = N
    p.value("r", 4)
    p.node("slice.Tensor", "r", self="w", dim=0, start=2, end=6)
    p.value("t", 4, dtype=12)
    p.node("gt.Scalar", "t", self="r", other=1.0)
    p.value("u", N, 2)
    p.node("zeros.default", "u", size=[{"as_name": "s"}, 2])
    p.value("v1", 2, 2, dtype=5)
    p.value("v2", 2, 2, dtype=5)
    p.node("meshgrid.indexing", ["v1", "v2"], tensors=["i", "i"], indexing={"as_string": "ij"})
    p.value("y", 2, 2, dtype=5)
    p.node("bitwise_and.Tensor", "y", self="v1", other="v2")
    p.value("z", 2, 2)
    p.node("div.Tensor", "z", self="y", other="v2")
    for name in "q", "j", "r", "t", "u", "z":
        p.out(name)
    return p


def misshapen():
    """Shapes that the ops' results cannot have."""
    p = Program()
    p.value("a", 6, dtype=5)
    p.node("arange.default", "a", end=6)
    p.value("b", 2, 3, dtype=5)
    p.node("view.default", "b", self="a", size=[2, 3])
    p.value("c", 1, 6, dtype=5)
    p.node("roll.default", "c", self="b", shifts=[1], dims=[0])
    p.value("d", 6, 1, dtype=5)
    p.node("flip.default", "d", self="b", dims=[1])
    for name in "c", "d":
        p.out(name)
    return p


def copied():
    """A copy that leaves no node."""
    p = Program()
    p.value("a", N, 4)
    p.node("mul.Tensor", "a", self="x", other=2.0)
    p.value("b", N, 4)
    p.node("copy_.default", "b", self="a", src="x")
    p.value("c", N, 4)
    p.node("copy_.default", "c", self="b", src="x")
    p.out("c")
    return p


out = Path(sys.argv[1])
for make in arguments, changes, wrapped, constants, misshapen, copied:
    (out / (make.__name__ + ".json")).write_text(make().text())
