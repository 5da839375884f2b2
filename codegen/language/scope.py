"""What tensor expressions may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codegen.language.overloads import AnyType, Forms
from codegen.language.unusable import Unusable


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may refer to."""

    forms: Forms
    variables: Mapping[str, AnyType]
    reader: str  # for messages: "logsumexp", "the gradient of mm"
    inplace_allowed: bool = False
    unusable: Unusable = field(default_factory=Unusable)  # silent: the mistake is elsewhere
    lets: Mapping[str, str] = field(default_factory=dict)  # the text behind each name of a `let`
    operator: str = ""  # whose entry is read
    failed: frozenset[str] = frozenset()  # names of a `let` that have a mistake, which has been reported
