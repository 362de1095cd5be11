"""The names of a folder in a store, as a value."""

from __future__ import annotations

import pytest

from sparktf.errors import StorageExistsError, StorageNotFoundError
from sparktf.storage.names.tree import (
    NamedFile,
    NamedFolder,
    attach,
    content_of,
    find,
    make_dirs,
    paths_of,
    put_file,
    read_content,
    remove,
    rename,
    replace,
)


def file(at: str) -> NamedFile:
    return NamedFile(at, 1, 2, "")


@pytest.mark.parametrize("count", [0, 3, 3_000])
def test_names_are_stored_and_read_whatever_their_number(count: int) -> None:
    root = make_dirs(NamedFolder(), ("events", "empty"), 5, "make")
    for number in range(count):
        root = put_file(
            root, ("events", f"{number:06d}.jsonl"), file(f"_objects/events/{number}~-{number:016x}"), "write"
        )
    content = content_of(root, ("b", "a"), gone=False)
    assert read_content(content) == (root, ("b", "a"), False)
    assert len(content) < 200_000


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"x", b'{"names": 1, "swaps": [], "gone": false}'])
def test_what_is_no_names_is_told_from_them(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no names of a folder: "):
        read_content(content)


def test_a_change_leaves_the_names_that_it_was_made_of_as_they_were() -> None:
    before = put_file(NamedFolder(), ("a", "x"), file("1"), "write")
    after = rename(before, ("a",), ("b",), 3, "rename")
    assert [path for path, _ in paths_of(before)] == [("a", "x")]
    assert [path for path, _ in paths_of(after)] == [("b", "x")]
    assert remove(after, ("b", "missing"), 4) is after
    assert make_dirs(after, ("b",), 4, "make") is after


def test_a_folder_is_moved_neither_into_itself_nor_over_another_nor_below_what_is_missing() -> None:
    root = put_file(put_file(NamedFolder(), ("a", "x"), file("1"), "write"), ("b", "y"), file("2"), "write")
    for target, error in (
        (("a", "inside"), StorageNotFoundError),
        (("b",), StorageExistsError),
        (("missing", "a"), StorageNotFoundError),
        (("b", "y", "a"), StorageNotFoundError),
    ):
        with pytest.raises(error):
            rename(root, ("a",), target, 3, "rename")
    with pytest.raises(StorageExistsError):
        replace(root, ("a", "x"), ("b",), 3, "rename")
    assert find(replace(root, ("a", "x"), ("b", "y"), 3, "rename"), ("b", "y")) == file("1")
    with pytest.raises(StorageExistsError):
        attach(root, ("a", "x"), file("3"), 3, "rename")
