"""What loaders, samplers and data sets refuse, and samples fetched several at once, as in PyTorch."""

from sides import Scenarios, raised, warned

scenario = Scenarios()


@scenario
def loaders_keep_what_they_were_made_with(torch):
    loader = torch.utils.data.DataLoader([1, 2, 3])
    fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    found = [raised("should not be set after", setattr, loader, name, None)[0] for name in fixed]
    loader.worker_init_fn = loader.collate_fn = len
    return [found, list(loader), loader.worker_init_fn is len]


@scenario
def a_loader_of_a_subclass_sets_its_own(torch):
    class Loader(torch.utils.data.DataLoader):
        def __init__(self, *args):
            self.before = 1
            super().__init__(*args)
            self.after = 2

    loader = Loader([1, 2])
    return [loader.before, loader.after, raised("", setattr, loader, "batch_size", 2)[0]]


@scenario
def flags_of_samplers(torch):
    data = torch.utils.data
    return [
        raised("", data.RandomSampler, range(3), replacement="a")[0],
        raised("", data.BatchSampler, range(3), 2, "a")[0],
        raised("", data.DistributedSampler, range(3))[0],
        raised("", iter, data.Sampler())[0],
    ]


@scenario
def places_beyond_data_sets(torch):
    data = torch.utils.data
    joined = data.ConcatDataset([[1, 2], [3]])
    return [
        raised("", joined.__getitem__, -9)[0],
        raised("", joined.__getitem__, 3)[0],
        joined[-1],
        raised("", data.Dataset().__getitem__, 0)[0],
    ]


@scenario
def subsets_fetch_several_at_once(torch):
    data = torch.utils.data

    class Squares(data.Dataset):
        calls = 0

        def __len__(self):
            return 5

        def __getitem__(self, index):
            return index * index

        def __getitems__(self, indices):
            Squares.calls += 1
            return [self[i] for i in indices]

    loader = data.DataLoader(data.Subset(Squares(), [4, 0, 2]), batch_size=2)
    tensors = data.Subset(data.TensorDataset(torch.arange(4)), [2, 0])
    plain = data.Subset([5, 6, 7], [2, 1]).__getitems__([1, 0])
    return [list(loader), Squares.calls, tensors[[0, 1]], tensors.__getitems__([1]), plain]


@scenario
def parts_that_are_empty(torch):
    split = torch.utils.data.random_split
    return [warned("", split, range(count), [0.5, 0.5]) for count in (1, 2)]


@scenario
def an_epoch_given_to_a_schedule(torch):
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    return [warned("", schedule.step), warned("", schedule.step, 5), schedule.get_last_lr()]


test_as_in_pytorch = scenario.test()
