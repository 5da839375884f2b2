"""Trees: taken apart, put together, compared and registered; PyTorch's own agree."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import flambeau as fb
import pytest
from flambeau.utils import _pytree as ours
from oracle import pytorch

Point = namedtuple("Point", "x y")

TREES = [
    5,
    None,
    (),
    [],
    {},
    [1, {"a": (2, 3)}, None],
    {"b": 1, "a": Point(1, (2,))},
    defaultdict(list, {"b": 1, "c": [2]}),
    deque([1, [2]], maxlen=3),
    OrderedDict(b=1, a=(2,)),
    "text",
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_shapes_are_pytorchs(tree):
    pytorch()
    import torch.utils._pytree as theirs

    leaves, spec = ours.tree_flatten(tree)
    their_leaves, their_spec = theirs.tree_flatten(tree)
    assert leaves == their_leaves
    assert repr(spec) == repr(their_spec)
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (
        their_spec.num_leaves,
        their_spec.num_nodes,
        their_spec.num_children,
    )
    again = ours.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    paths = [ours.keystr(path) for path, _ in ours.tree_flatten_with_path(tree)[0]]
    assert paths == [theirs.keystr(path) for path, _ in theirs.tree_flatten_with_path(tree)[0]]


def test_contexts_survive():
    again = ours.tree_map(lambda n: n, deque([1, 2], maxlen=3))
    assert again.maxlen == 3
    assert ours.tree_map(lambda n: n, defaultdict(list, a=1)).default_factory is list


def test_named_results_of_operators_are_nodes():
    found = fb.max(fb.tensor([[1.0, 3.0]]), 1)
    values, spec = ours.tree_flatten(found)
    assert [v.item() for v in values] == [3, 1]
    assert type(ours.tree_unflatten(values, spec)) is type(found)
    assert ours.is_structseq(found)
    assert not ours.is_namedtuple(found)


def test_maps():
    assert ours.tree_map(lambda a, b: (a, b), [1, 2], [(3, 4), 5]) == [(1, (3, 4)), (2, 5)]
    assert ours.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, OrderedDict(b=20, a=10)) == {"a": 11, "b": 22}
    assert ours.tree_map_only(int, lambda n: -n, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert ours.tree_map_only(lambda n: n > 1, lambda n: 0, [1, 2]) == [1, 0]
    assert ours.tree_map(len, [(1, 2), (3,)], is_leaf=lambda t: isinstance(t, tuple)) == [2, 1]
    seen = []
    tree = [1, (2,)]
    assert ours.tree_map_(seen.append, tree) is tree
    assert seen == [1, 2]
    assert ours.tree_map_with_path(lambda path, n: (len(path), n), [1, (2,)]) == [(1, 1), ((2, 2),)]


def test_questions():
    assert ours.tree_all(bool, [1, (2,)])
    assert ours.tree_any(bool, [0, (2,)])
    assert ours.tree_all_only(int, lambda n: n > 0, [1, "a", -0.5])
    assert not ours.tree_any_only((int, float), lambda n: n < 0, [1, "a", 0.5])
    assert ours.tree_is_leaf(3)
    assert not ours.tree_is_leaf([3])


def test_mismatches_are_reported():
    with pytest.raises(ValueError, match="leaves"):
        ours.tree_unflatten([1], ours.tree_structure([1, 2]))
    with pytest.raises(ValueError, match="Node arity mismatch"):
        ours.tree_map(lambda a, b: a, [1, 2], [1])
    with pytest.raises(
        ValueError, match=r"Node keys mismatch: .*; missing key\(s\): {'a'}; extra key\(s\): {'b'}"
    ):
        ours.tree_map(lambda a, b: a, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match="Node type mismatch"):
        ours.tree_map(lambda a, b: a, [1, 2], (1, 2))
    with pytest.raises(TypeError, match="PyTreeSpec"):
        ours.tree_unflatten([1], 3)
    with pytest.raises(ValueError, match="already registered as pytree node"):
        ours.register_pytree_node(list, None, None)


class Pair:
    def __init__(self, a, b, label):
        self.a, self.b, self.label = a, b, label


def test_registered_classes_are_nodes():
    ours.register_pytree_node(
        Pair, lambda p: ([p.a, p.b], p.label), lambda leaves, label: Pair(*leaves, label)
    )
    try:
        doubled = ours.tree_map(lambda n: 2 * n, [Pair(1, (2, 3), "p")])[0]
        assert (doubled.a, doubled.b, doubled.label) == (2, (4, 6), "p")
        assert ours.tree_structure(Pair(1, 2, "p")) == ours.tree_structure(Pair(3, 4, "p"))
        assert ours.tree_structure(Pair(1, 2, "p")) != ours.tree_structure(Pair(1, 2, "q"))
        with pytest.raises(ValueError, match="context"):
            ours.tree_map(lambda a, b: a, Pair(1, 2, "p"), Pair(1, 2, "q"))
    finally:
        del ours.SUPPORTED_NODES[Pair]


def test_prefixes_are_spread():
    spec = ours.tree_structure((1, [2, {"a": 3}]))
    assert ours._broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert ours._broadcast_to_and_flatten((0, None), spec) == [0, None, None]
    assert ours._broadcast_to_and_flatten((0, [1, {"a": 2}]), spec) == [0, 1, 2]
    assert ours._broadcast_to_and_flatten((0, (1, 2)), spec) is None
    assert ours._broadcast_to_and_flatten((0,), spec) is None


def test_shapes_are_values():
    one, two = ours.tree_structure({"a": (1, 2)}), ours.tree_structure({"a": ("x", "y")})
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two}) == 1
    assert ours.treespec_pprint(one) == "{'a': (*, *)}"
    assert one != ours.tree_structure({"a": [1, 2]})


def test_paths_lead_to_leaves():
    tree = {"a": [1, Point(2, 3)]}
    for path, leaf in ours.tree_leaves_with_path(tree):
        assert ours.key_get(tree, path) == leaf
