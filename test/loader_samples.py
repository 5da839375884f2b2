"""Data sets that misbehave, and exceptions that are hard to send, for tests whose processes import them."""

import os
import threading

from flambeau.utils.data import Dataset, IterableDataset, get_worker_info


class TwoArguments(Exception):
    """An exception that cannot be made of a message."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class Unpicklable(Exception):
    """An exception whose constructor fails for anything but 5, and whose attributes do not travel."""

    def __init__(self, number):
        if number != 5:
            raise ZeroDivisionError
        super().__init__("five")
        self.lock, self.kept = threading.Lock(), 7


class OwnText(Exception):
    """An exception that writes its text itself."""

    def __init__(self, code, why):
        super().__init__(code, why)
        self.code, self.why = code, why

    def __str__(self):
        return f"[{self.code}] {self.why}"


def raise_local():
    class Local(ValueError):
        pass

    raise Local("nobody can import it")


def raise_two(first, second):
    raise TwoArguments(first, second)


def raise_it(error):
    raise error


def stop_self(number):
    os.kill(os.getpid(), number)


class Acts(Dataset):
    """Sample i is i, but sample 2 is what a function returns."""

    def __init__(self, act, *arguments, size=6):
        self.act, self.arguments, self.size = act, arguments, size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return self.act(*self.arguments) if i == 2 else i


class Stream(IterableDataset):
    """A stream whose workers share the numbers below `size`."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, self.size, step))


def fail_init(worker):
    raise TwoArguments(worker, "init")
