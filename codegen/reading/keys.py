"""The keys of both YAML files in one table: the loader checks against these tables and the JSON
schemas are made from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.model.enumerations import AUTOCAST_DEVICES, CAST_POLICIES

# inplace_function: in-place, and a function as well as a method, which is given where there is one Tensor.
VARIANTS = ("function", "method", "inplace", "inplace_function", "out", "copy")
NAMESPACES = ("nn", "linalg", "special", "fft")
DTYPE_RULES = ("promote", "floating", "compare", "logical", "real", "integral", "keep", "number")
CATEGORIES = ("bool", "integral", "floating", "complex")
# random: values come from a Generator; uninitialized: they are whatever memory holds; both cannot have a
# reference. nondeterministic: the order of accumulation may differ from run to run on some backend.
# layout: the result depends on the strides of the inputs. exact_out: out= is not cast to. type_error_out:
# out= of a dtype that the result can't be cast to is a TypeError. aligned_out: what is written may share
# memory with an input only element by element. apart_out: not at all. lazy: conjugate and negative views are
# taken as they are. numbers: as a function it takes Python numbers for its tensors. cast: its result has the
# elements of its first argument in another dtype.
OUT_TAGS = ("exact_out", "type_error_out", "aligned_out", "apart_out")
TAGS = (
    "random",
    "uninitialized",
    "nondeterministic",
    "layout",
    *OUT_TAGS,
    "lazy",
    "numbers",
    "effect",
    "any_device",
    "cast",
)
BACKENDS = ("CPU", "CUDA", "Meta")
COMBINES = ("sum", "prod", "max", "min", "any", "all", "xor")
EMPTY = ("identity", "error")
NO_DIMS = ("all", "none")
INFIX = tuple("+ - * / // % ** @ == != < <= > >= & | ^ ~ << >>".split())
# Kind keys: an entry has exactly one of them.
KIND_KEYS = ("pointwise", "reduce", "composite", "view", "kernels")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an entry.

    shape: text, list (of texts), lists (of lists), map, maps (a list of them), or any; several joined by '|'.
    kinds: the kind keys beside which it may stand; empty: all.
    """

    doc: str
    shape: str = "text"
    values: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    required: bool = False


AUTOCAST: dict[str, Key] = {
    device: Key(f"What autocast does to the arguments on {device}.", values=CAST_POLICIES)
    for device in AUTOCAST_DEVICES
}

ENTRY: dict[str, Key] = {
    "func": Key("The schema: name.overload(Type arg=default, *, ...) -> Type.", required=True),
    "family": Key("The family: the stem of its kernels, tests and outputs.", required=True),
    "variants": Key("The forms that users see; default [function, method].", "list", VARIANTS),
    "namespace": Key("Where the function lives; default the top level.", values=NAMESPACES),
    "aliases": Key("Further names in Python, of all overloads: name, or namespace.name.", "list"),
    "foreach": Key("Overloads over lists of tensors: {List: parameters}; the operator's if empty.", "map"),
    "functional": Key("The name of the functional form, of an in-place operator.", kinds=("kernels",)),
    "read_back": Key(
        "Of a view that reads memory as other numbers: the view that reads it back.", kinds=("view",)
    ),
    "orders": Key("Further orders of arguments by position: 'self, value, tensor1, tensor2'.", "list"),
    "infix": Key("The Python operator that means this operator, on tensors.", values=INFIX),
    "scalars": Key("Lists of Tensor arguments that may be numbers, one overload each.", "lists"),
    "pointwise": Key("A scalar expression, or {switch: arg, cases: {value: expression}}.", "text|map"),
    "masks": Key(
        "Operands that are truth values: bool or uint8, without promotion.", "list", (), ("pointwise",)
    ),
    "reduce": Key("How fibers are reduced; see REDUCE.", "map"),
    "let": Key(
        "Names of tensor expressions: computed before a reduction, with kept dims; or read by a composite.",
        "map",
        (),
        ("reduce", "composite"),
    ),
    "check": Key(
        "What must hold before anything is computed; see CHECK.",
        "maps",
    ),
    "composite": Key("A tensor expression over the arguments."),
    "view": Key("A handwritten view rule: rule(args)."),
    "kernels": Key("Handwritten kernels by backend: {CPU: name_cpu}.", "map"),
    "decomposition": Key(
        "What a kernel computes, for compilers: a tensor expression of reductions and pointwise operators.",
        kinds=("kernels", "reduce"),
    ),
    "element": Key(
        "Which one element the result takes or adds to, for compilers; see codegen/reading/element.py."
    ),
    "shape": Key("The shape rule, rule(args); or dynamic.", kinds=("kernels",)),
    "reason": Key("Why the shape is dynamic.", kinds=("kernels",)),
    "sparse": Key(
        "Functions for calls with a sparse tensor: the functional form's, or {functional: f, inplace: g}.",
        "text|map",
        (),
        ("pointwise", "reduce", "view", "kernels"),
    ),
    "dtype": Key("The rule that gives compute and result dtypes; default promote.", values=DTYPE_RULES),
    "dtypes": Key("The dtype categories that are accepted.", "list", CATEGORIES),
    "tags": Key("Properties of the results that tests and compilers must know.", "list", TAGS),
    "doc": Key("Documentation: a text, or a mapping; see DOC. Further overloads inherit it.", "text|map"),
    "test": Key("Sample domains, sample calls, reference; see TEST.", "map"),
    "vmap": Key("Batching rules, tried in order, where none can be derived; see VMAP.", "map|maps"),
    "autocast": Key("What autocast does to the arguments, on all devices or by device.", "text|map"),
    "flops": Key("Floating-point operations of one call, over sizes; see FLOPS.", "text|map"),
    "onnx": Key("Export to ONNX.", "any"),
    "shard": Key("How placements of arguments on processes determine those of results."),
}
EXTRA = ("onnx", "shard")

# The first entry of an author's file (codegen/reading/extension.py).
EXTENSION: dict[str, Key] = {
    "extension": Key("The namespace of the operators in the file.", required=True),
    "sources": Key("Files in C++ with the author's kernels: patterns relative to the file.", "list"),
}

# What the generator derives stands in no entry: signatures, defaults, shapes and dtypes by named rules,
# errors of `check`, formulas of expressions, gradients, the line of the entry.
DOC: dict[str, Key] = {
    "summary": Key("One sentence that says what the operator computes."),
    "args": Key("Argument -> what it means here, where the glossary does not say it.", "map"),
    "returns": Key("What the result holds, where the summary does not say it."),
    "shapes": Key("Shapes of the arguments and of the result."),
    "dtypes": Key("What the rule for dtypes does not say."),
    "formula": Key("The definition, where the expression of the entry does not give it."),
    "gradient": Key("The gradient at special points."),
    "raises": Key("Exceptions beyond those of `check`, one sentence each.", "text|list"),
    "notes": Key("What happens at special points: NaN, infinities, empty tensors, ties.", "text|list"),
    "source": Key("Papers and books that define the operator.", "text|list"),
    "see": Key("Names of related operators and layers, without `flambeau.`.", "list"),
    "example": Key("A doctest with small inputs; it is run as a test."),
}

GLOSSARY: dict[str, Key] = {
    "name": Key("The argument.", required=True),
    "types": Key("The types that the text is about, without sizes; default all.", "list"),
    "text": Key("What the argument means.", required=True),
}

REDUCE: dict[str, Key] = {
    "map": Key("Scalar expression over the operands, applied to each element.", required=True),
    "combine": Key("How mapped elements are joined.", values=COMBINES, required=True),
    "finish": Key("Scalar expression over acc and count; default acc."),
    "dim": Key("The argument that names the dims; default dim."),
    "keepdim": Key("The argument that keeps reduced dims; default keepdim."),
    "dtype": Key("The argument that overrides the dtype; default dtype."),
    "empty": Key("What an empty fiber gives; default identity.", values=EMPTY),
    "no_dims": Key("What an empty list of dims reduces; default all.", values=NO_DIMS),
}

VMAP: dict[str, Key] = {
    "front": Key("Tensor arguments whose batch dimension goes first.", "list"),
    "align": Key("The same where ranks differ: argument -> number of core dimensions.", "map"),
    "fold": Key("Argument or result -> the dimension into which the batch is merged.", "map"),
    "dims": Key("Arguments that name dimensions of the first placed tensor.", "list"),
    "reduced": Key("The same where no dimension means all of them.", "list"),
    "new_dims": Key("Arguments that name dimensions of a result with new dimensions.", "list"),
    "order": Key("Arguments that list all dimensions in another order.", "list"),
    "sizes": Key("Arguments that list sizes, one for each dimension.", "list"),
    "strides": Key("Arguments that list strides, one for each dimension.", "list"),
    "offsets": Key("Arguments that count elements from the beginning of memory.", "list"),
    "times": Key("Counts that are multiplied by the batch size.", "list"),
    "expr": Key("A tensor expression, or a function body, of operators that have rules; stands alone."),
    "loop": Key("Why the operator runs once per entry of the batch; stands alone."),
}

ERRORS = ("RuntimeError", "IndexError", "TypeError", "ValueError", "NotImplementedError")
CHECK: dict[str, Key] = {
    "that": Key("A condition on shapes, dtypes and numbers, in tensor expressions."),
    "elements": Key("In place of `that`: a condition that calls operators, which is True on meta tensors."),
    "out": Key("In place of `that`: a condition on the argument `out`, for the out= form."),
    "say": Key("The message; {expression} shows a value."),
    "ndim": Key("Tensor -> the least number of its dimensions; in place of `that` and `say`.", "map"),
    "square_matrices": Key("A Tensor of square matrices; in place of `that` and `say`."),
    "dtypes": Key("Tensor -> categories and dtypes that it may have; in place of `that` and `say`.", "map"),
    "error": Key("The exception; default RuntimeError, for `dtypes` NotImplementedError.", values=ERRORS),
}
SHARED_CHECKS = ("ndim", "square_matrices", "dtypes")

SWITCH: dict[str, Key] = {
    "switch": Key("The str argument that chooses.", required=True),
    "cases": Key("Value -> scalar expression.", "map", required=True),
}

SPARSE: dict[str, Key] = {
    "functional": Key("A function that takes the operator's arguments and returns its results."),
    "inplace": Key("The same where the first argument, a Tensor&, is written to."),
}

FLOPS: dict[str, Key] = {
    "count": Key("An expression over sizes of the arguments, for `counter` and `profiler`."),
    "counter": Key("What FlopCounterMode counts; it may read sizes of results."),
    "profiler": Key("What the profiler shows; it may read values of arguments."),
    "as": Key("The operator under which FlopCounterMode counts; default this one."),
}

# Beside these, `test` takes any argument's name with [low, high].
TEST: dict[str, Key] = {
    "samples": Key("Python argument lists of sample calls.", "list"),
    "reference": Key("A NumPy expression over the arguments that gives the result."),
    "no_reference": Key("Why no NumPy expression can give the result."),
    "no_gradient": Key("Why the gradient is not the one that differences give."),
    "errors": Key("Lists [arguments, exception, message pattern].", "lists"),
    "tolerance": Key("Relative tolerance for float32."),
    "tolerance_reason": Key("Why the default tolerance does not do."),
}

# Keys of PyTorch's native_functions.yaml, and ours for the same.
FOREIGN_KEYS = {"dispatch": "kernels", "python_module": "namespace"}

# Beside these, an entry takes argument names (or several joined by ', ') and output names.
DERIVATIVE: dict[str, Key] = {
    "name": Key("The operator: base.overload.", required=True),
    "nondifferentiable": Key("Indices of outputs that have no gradient.", "list"),
    "override": Key("true: the formulas replace those that a composite's parts give.", values=("true",)),
    "node": Key("What `grad_fn.name()` shows, where the operator works for one that users know."),
}
FORWARD_RULES = ("linear", "elementwise")
NO_GRADIENT = ("none", "not_implemented")

# Names that generated C++ or formulas use themselves.
RESERVED_ARGS = ("grad", "result", "output_mask", "acc", "count", "keys", "node", "spec", "entry")
