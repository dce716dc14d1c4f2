"""A PyIceberg FileIO that opens no file: a catalog that is asked for a pointer needs none."""

from __future__ import annotations

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile


class _Named(InputFile):
    def __len__(self) -> int:
        raise OSError(f"{self.location} must not be read here")

    def exists(self) -> bool:
        raise OSError(f"{self.location} must not be read here")

    def open(self, seekable: bool = True) -> InputStream:
        raise OSError(f"{self.location} must not be read here")


class NoFiles(FileIO):
    """Every file has a name and cannot be opened."""

    def new_input(self, location: str) -> InputFile:
        return _Named(location)

    def new_output(self, location: str) -> OutputFile:
        raise OSError(f"{location} must not be written here")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise OSError(f"{location} must not be deleted here")
