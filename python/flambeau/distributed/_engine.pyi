"""The functions of python/csrc/distributed/binding.cpp.

Addresses are integers; counts are in bytes or elements.
"""

class Request:
    def wait(self, seconds: float, /) -> bool: ...
    def expire(self, why: str, /) -> None: ...
    def done(self) -> bool: ...
    def error(self) -> str: ...
    def source(self) -> int: ...

class Communicator:
    members: list[int]
    rank: int
    def all_reduce(
        self, send: int, receive: int, count: int, element: int, reduction: int, background: bool, /
    ) -> Request: ...
    def reduce(
        self,
        send: int,
        receive: int,
        count: int,
        element: int,
        reduction: int,
        root: int,
        background: bool,
        /,
    ) -> Request: ...
    def reduce_scatter(
        self, send: int, receive: int, count: int, element: int, reduction: int, background: bool, /
    ) -> Request: ...
    def broadcast(self, buffer: int, count: int, root: int, background: bool, /) -> Request: ...
    def all_gather(
        self, send: int, count: int, receive: int, counts: list[int], places: list[int], background: bool, /
    ) -> Request: ...
    def gather(
        self,
        send: int,
        count: int,
        receive: int,
        counts: list[int],
        places: list[int],
        root: int,
        background: bool,
        /,
    ) -> Request: ...
    def scatter(
        self,
        send: int,
        counts: list[int],
        places: list[int],
        receive: int,
        count: int,
        root: int,
        background: bool,
        /,
    ) -> Request: ...
    def all_to_all(
        self,
        send: int,
        send_counts: list[int],
        send_places: list[int],
        receive: int,
        counts: list[int],
        places: list[int],
        background: bool,
        /,
    ) -> Request: ...
    def barrier(self, background: bool, /) -> Request: ...
    def send(self, buffer: int, count: int, peer: int, tag: int, background: bool, /) -> Request: ...
    def receive(self, buffer: int, count: int, peer: int, tag: int, background: bool, /) -> Request: ...

def load(path: str, /) -> None: ...
def start(seconds: float, /) -> tuple[int, int]: ...
def stop() -> None: ...
def finalize(seconds: float, /) -> bool: ...
def departed(rank: int, grace: float, why: str, /) -> None: ...
def create(ranks: list[int], tag: int, seconds: float, /) -> Communicator: ...
