"""The register against a dict, and what a dict does not promise: dense rows that are used again."""

from __future__ import annotations

import random

import pytest

from shardwheel.wheel.register import Register


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_it_agrees_with_a_dict_while_ids_come_and_go() -> None:
    register, model = Register(), dict[bytes, int]()
    dice = random.Random(4)
    for _ in range(20_000):
        name = key(dice.randrange(3_000))
        if dice.random() < 0.6:
            row = register.add(name)
            assert model.setdefault(name, row) == row
        elif name in model:
            register.remove(model.pop(name))
        assert register.find(name) == model.get(name)
    assert len(register) == len(model)
    assert all(register.find(name) == row and register.id_of(row) == name for name, row in model.items())
    assert len(set(model.values())) == len(model)
    assert register.rows <= 3_000


def test_rows_are_dense_and_the_same_however_they_are_registered() -> None:
    names = [key(number) for number in range(5_000)]
    loaded, added = Register(), Register()
    assert loaded.load(names) == list(range(5_000))
    assert [added.add(name) for name in names] == list(range(5_000))
    assert [loaded.find(name) for name in names] == [added.find(name) for name in names]
    assert loaded.load(names[:10]) == list(range(10))


def test_a_row_that_is_not_registered_is_not_removed() -> None:
    register = Register()
    row = register.add(key(1))
    register.remove(row)
    with pytest.raises(KeyError):
        register.remove(row)
    assert register.add(key(2)) == row
    assert len(register) == 1


def test_an_id_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Register().add(b"short")
