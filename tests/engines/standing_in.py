"""Import-only stand-ins for packages that SGLang imports and, with its torch-native kernels on a CPU, never calls: what
is not installed under these names can be imported, and raises when it is called. Nothing is computed by them.

Copied beside SGLang and imported when its interpreter starts.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

PACKAGES = {"torchvision": "0.28.0", "sgl_kernel": "0.4.10"}


class Missing:
    """Anything in such a package; it can be looked up, hashed and inherited from, and not be called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __call__(self, *_: object, **__: object) -> object:
        raise NotImplementedError(f"{self._name} is a stand-in")

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so that what is installed is found first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        known = fullname.partition(".")[0] in PACKAGES
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__

        def attribute(wanted: str) -> Missing:
            if wanted.startswith("__"):
                raise AttributeError(wanted)
            return Missing(f"{name}.{wanted}")

        module.__dict__.update(__getattr__=attribute, __version__=PACKAGES[name.partition(".")[0]])


sys.meta_path.append(Finder())
