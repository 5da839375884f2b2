"""Code generators, which define how a generated function takes its inputs and returns its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flambeau.fx._names import Namespace
from flambeau.fx._source import Options, PythonCode, Writer
from flambeau.utils import _pytree as pytree

TransformCodeFunc = Callable[[list[str]], list[str]]


class CodeGen:
    """Writes a graph as a function of its placeholders. Subclasses change the head and the end.

    Example:
        >>> graph = flambeau.fx.symbolic_trace(lambda x: x + 1).graph
        >>> type(graph._codegen).__name__
        'CodeGen'
    """

    _func_name = "forward"

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Return the head of the function, up to the colon, and the statements before the body.

        Args:
            free_vars: the parameters as text, with annotations and defaults.
            maybe_return_annotation: ``" -> type"`` or "".
            expanded_def: write each parameter on its own line.
        """
        names = [*([] if free_vars and free_vars[0].partition(" ")[0] == "self" else ["self"]), *free_vars]
        if expanded_def:
            listed = "".join(f"\n    {name}," for name in names)
            return f"def {self._func_name}({listed}\n){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(names)}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the statement that ends the function."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Turn the arguments of the function into values of the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Turn the value of the output node into the result of the function."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further names that the text uses, with their objects."""
        return []

    def _gen_python_code(
        self, nodes: Any, root_module: str, namespace: Namespace, **options: Any
    ) -> PythonCode:
        extra = tuple(options.pop("additional_meta", None) or ())
        options.pop("record_func", None)  # accepted for compatibility
        chosen = Options(**options, additional_meta=extra)
        return Writer(self, list(nodes), root_module, namespace, chosen).write()


class _BoxedCodeGen(CodeGen):
    """Takes all inputs in a list and empties it, so that each input can be freed after its last use."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        names = [text.partition(":")[0].partition("=")[0].strip() for text in free_vars]
        head = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        if not names:
            return f"{head}\n    args_list.clear()"
        return f"{head}\n    {', '.join(names)}, = args_list\n    args_list.clear()"


class _PyTreeInfo(NamedTuple):
    """How the generated function flattens the arguments of the traced function."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """Flattens the containers in the arguments, and rebuilds the container of the result."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.tree_leaves(inputs)

    def process_outputs(self, outputs: Any) -> Any:
        spec = self.pytree_info.out_spec
        if spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        names = self.pytree_info.orig_args
        head = super().gen_fn_def(names, maybe_return_annotation, expanded_def=expanded_def)
        inputs = [text.partition(":")[0].partition("=")[0].strip() for text in free_vars]
        if not inputs:
            return head
        arguments = [name.partition(":")[0].partition("=")[0].strip() for name in names if name != "self"]
        keywords = self._keyword_names(arguments)
        taken = ", ".join(name for name in arguments if name not in keywords)
        tree = f"[{taken}]"
        if keywords:
            tree = f"({tree}, {{{', '.join(f'{name!r}:{name}' for name in keywords)}}})"
        return f"{head}\n    {', '.join(inputs)}, = fx_pytree.tree_flatten_spec({tree}, self._in_spec)"

    def _keyword_names(self, arguments: list[str]) -> list[str]:
        """Names of the arguments that the spec holds in a dict, after the positional ones."""
        spec = self.pytree_info.in_spec
        two = spec.type is tuple and spec.num_children == 2
        if two and spec.children_specs[0].type is tuple and spec.children_specs[1].type is dict:
            return [name for name in arguments if name in spec.children_specs[1].context]
        return []

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        text = (repr_fn or repr)(output_args)
        if self.pytree_info.out_spec is None:
            return f"return {text}"
        return f"return pytree.tree_unflatten({text}, self._out_spec)"
