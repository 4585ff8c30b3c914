"""Files on a local disk or any fsspec URL, by URL; a write is whole or absent, and returns its checksum."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from fsspec.implementations.local import LocalFileSystem

from cuvee.errors import DataError, UsageError, missing_extra

ROW_GROUP = 16_384  # rows a Parquet row group: about 32 MB of text at 2 kB a document


EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "hf": "hub"}  # protocol -> the extra that installs its filesystem


def filesystem(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The fsspec filesystem of `url` and the path inside it. What has no `://` is a local path, whatever its characters."""
    if "://" not in url:
        return LocalFileSystem(), os.path.abspath(os.path.expanduser(url))
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError:
        protocol = url.split("://")[0]
        raise missing_extra(f"the filesystem for {protocol}://", EXTRAS.get(protocol, protocol)) from None
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from None


def is_local(url: str) -> bool:
    return isinstance(filesystem(url)[0], LocalFileSystem)


def join(url: str, *parts: str) -> str:
    return "/".join([url.rstrip("/"), *parts])


def exists(url: str) -> bool:
    fs, path = filesystem(url)
    return fs.exists(path)


def size(url: str) -> int:
    fs, path = filesystem(url)
    return int(fs.size(path))


def open_input(url: str) -> BinaryIO:
    """A seekable binary file. A missing file is a DataError that names it."""
    fs, path = filesystem(url)
    try:
        return fs.open(path, "rb")
    except FileNotFoundError:
        raise DataError(f"{url}: no such file, though a manifest names it. Delete its folder and run again.") from None
    except IsADirectoryError:
        raise UsageError(f"{url} is a folder; name a file") from None


def read_bytes(url: str) -> bytes:
    with open_input(url) as file:
        return file.read()


def read_json(url: str) -> Any:
    try:
        return json.loads(read_bytes(url))
    except ValueError as error:
        raise DataError(f"{url} is damaged: {error}. Delete it and run again.") from None


def read_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        with _mapped(url) as file:
            return pq.read_table(file, columns=list(columns) if columns is not None else None)
    except pa.ArrowInvalid as error:
        raise DataError(f"{url} is damaged: {error}. Delete it and run again.") from None


def _mapped(url: str) -> Any:
    """A file to read: mapped where local, which spares a copy."""
    if is_local(url):
        with contextlib.suppress(FileNotFoundError):
            return pa.memory_map(filesystem(url)[1])
    return open_input(url)


class _Counted:
    """A binary file that keeps the xxh3-128 of all that is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def checksum(self) -> str:
        return self._hash.hexdigest()


@contextlib.contextmanager
def create(url: str, lasting: bool = True) -> Iterator[_Counted]:
    """Write a file that appears under its name only when the block ends well.

    Local: temporary file, fsync, rename. Elsewhere: one PUT (or multipart upload) at the final key.
    lasting: False spares the fsync; a file is then whole or absent until the machine stops, and unknown after that.
    """
    fs, path = filesystem(url)
    if not is_local(url):
        buffer = io.BytesIO()
        yield (counted := _Counted(buffer))
        fs.pipe_file(path, buffer.getvalue())
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield (counted := _Counted(file))
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    del counted


def sweep(folder: str, names: str = "**/.*.tmp") -> None:
    """Delete the temporary files that killed writers left in a local folder and below it, or only directly in it."""
    if is_local(folder):
        for path in glob.glob(os.path.join(filesystem(folder)[1], names), recursive=True, include_hidden=True):
            os.unlink(path)


def write_bytes(url: str, data: bytes, lasting: bool = True) -> str:
    with create(url, lasting) as file:
        file.write(data)
    return file.checksum()


def write_json(url: str, value: Any, lasting: bool = True) -> str:
    return write_bytes(url, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n", lasting)


def write_table(url: str, table: pa.Table, metadata: Mapping[str, str] | None = None, lasting: bool = True) -> str:
    """Compressed if it is to last."""
    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    with create(url, lasting) as file:
        pq.write_table(table, sink(file), compression="zstd" if lasting else "none", row_group_size=ROW_GROUP)
    return file.checksum()


def boot() -> str | None:
    """Which start of this machine it is; None where the system does not say."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return None


def open_arrow(url: str) -> pa.ipc.RecordBatchFileReader:
    """An Arrow IPC file: memory-mapped where local, so that only what is touched is read."""
    fs, path = filesystem(url)
    source = pa.memory_map(path) if is_local(url) else pa.BufferReader(fs.cat_file(path))
    return pa.ipc.open_file(source)


def open_npy(url: str) -> np.ndarray:
    """An array written by `write_npy`: memory-mapped where local."""
    if is_local(url):
        return np.load(filesystem(url)[1], mmap_mode="r")
    return np.load(io.BytesIO(read_bytes(url)))


class Output:
    """Where one task writes: a folder, and the checksum of every file written into it. lasting: as `create` has it."""

    def __init__(self, folder: str, lasting: bool = True) -> None:
        self.folder = folder
        self.lasting = lasting
        self.files: dict[str, str] = {}

    def table(self, name: str, table: pa.Table, metadata: Mapping[str, str] | None = None) -> None:
        self.files[name] = write_table(join(self.folder, name), table, metadata, self.lasting)

    def bytes(self, name: str, data: bytes) -> None:
        self.files[name] = write_bytes(join(self.folder, name), data, self.lasting)

    def json(self, name: str, value: Any) -> None:
        self.files[name] = write_json(join(self.folder, name), value, self.lasting)

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[_Counted]:
        with create(join(self.folder, name), self.lasting) as file:
            yield file
        self.files[name] = file.checksum()

    def npy(self, name: str, *arrays: np.ndarray) -> None:
        """One array: the rows of `arrays`, one after another, without a copy of them all."""
        whole = [np.ascontiguousarray(each) for each in arrays]
        shape = (sum(map(len, whole)), *whole[0].shape[1:])
        if odd := [each for each in whole if each.dtype != whole[0].dtype or each.shape[1:] != shape[1:] or each.dtype.hasobject]:
            raise ValueError(f"{name}: rows of {odd[0].dtype} {odd[0].shape[1:]} do not follow {whole[0].dtype} {shape[1:]}")
        with self.create(name) as file:
            np.lib.format.write_array_header_1_0(file, {"descr": np.lib.format.dtype_to_descr(whole[0].dtype), "fortran_order": False, "shape": shape})
            for each in whole:
                file.write(each.reshape(-1).view(np.uint8).data)

    def arrow(self, name: str, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
        """An uncompressed Arrow IPC file, one record batch per item; its footer is the offset index."""
        with self.create(name) as file, pa.ipc.new_file(sink(file), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


def sink(file: _Counted) -> pa.PythonFile:
    """A file being written, as pyarrow's writers want it."""
    return pa.PythonFile(_Sink(file), mode="w")


class _Sink(io.RawIOBase):
    """The file interface that pyarrow asks of a writer, over a counted file."""

    def __init__(self, file: _Counted) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(bytes(data))
