"""Stores of MLflow: which one is meant, whether it can be used, and where the files of a run go.

A folder and a file of SQLite are on this machine; a server of databases and one of MLflow are elsewhere.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from audits.report.exports.wording import line
from probes.core.cache import VARIABLE, Cache
from probes.core.errors import InputError, first_line
from probes.core.hashing import sha256_json

FOLDER = "mlruns"
"""The folder of the files, beside a database as in a store of files."""
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
ROOT = "_MLFLOW_SERVER_ARTIFACT_ROOT"
"""Where newer versions of MLflow put the files of the experiment `Default`, which they make in an empty database."""

_DRIVERS = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient", "pymysql": "PyMySQL"}
"""Modules that speak to a database, where their package has another name."""
_SQLITE = b"SQLite format 3\0"
_PATIENCE = 600.0
"""Seconds to wait for another export into the same store."""

Kind = Literal["folder", "sqlite", "database", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A tracking store: its address in full, its kind, and the folder of the files where that is ours to say."""

    address: str
    kind: Kind
    files: Path | None = None

    @property
    def where(self) -> str:
        """The store as an error names it."""
        return f"--tracking-uri {shown(self.address)}"


def store_address(given: str | None) -> str:
    """Return the address of the store; one on another machine only where it was given explicitly.

    Without any it is the one that MLflow itself would use here, so that `mlflow ui` in this folder shows the run.

    Raises
    ------
    InputError
        Where the environment names one elsewhere.
    """
    address = given or os.environ.get("MLFLOW_TRACKING_URI") or _usual()
    scheme = address.partition(":")[0] if ":" in address else ""
    if scheme in ("", "file") and address != "databricks":
        return address if scheme else Path(address).absolute().as_uri()
    if given is None and not _is_sqlite(address):
        raise InputError(
            f"MLFLOW_TRACKING_URI names a store elsewhere: {shown(address)}",
            where="--tracking-uri",
            hint='miles uses the network only where you say so: --tracking-uri "$MLFLOW_TRACKING_URI"',
        )
    return address


def _usual() -> str:
    from mlflow import get_tracking_uri

    return str(get_tracking_uri())


def _is_sqlite(address: str) -> bool:
    return _backend(address) == "sqlite"


def _backend(address: str) -> str:
    return address.partition(":")[0].partition("+")[0]


def shown(address: str) -> str:
    """Return an address without its password.

    Examples
    --------
    >>> shown("https://me:secret@example.org/x")
    'https://***@example.org/x'
    """
    return re.sub(r"//[^/@\s]*@", "//***@", line(address))


def checked(address: str) -> Store:
    """Return the store of an address once it is known that MLflow can open it, and whose it is.

    MLflow itself would make folders, add its tables to any database, and ask one that is down for an hour.

    Raises
    ------
    InputError
        Where it cannot, with what to do about it.
    """
    backend = _backend(address)
    if backend == "file":
        _check_folder(address)
        return Store(address=address, kind="folder")
    if backend not in DATABASES:
        return Store(address=address, kind="server")
    missing = [name for name in ("sqlalchemy", "alembic") if not find_spec(name)]
    if missing:
        raise InputError(
            f"A database needs {' and '.join(missing)}, which MLflow did not bring.",
            where=f"--tracking-uri {shown(address)}",
            hint=f"pip install 'miles-audit[mlflow]', or give a folder: --tracking-uri {FOLDER}",
        )
    return _sqlite(address) if backend == "sqlite" else _elsewhere(address)


def _check_folder(address: str) -> None:
    from mlflow.utils.file_utils import local_file_uri_to_path

    with suppress(OSError, ValueError):
        path = Path(local_file_uri_to_path(address))
        if path.is_file():
            raise InputError(
                "This is a file, and no folder.",
                where=f"--tracking-uri {path}",
                hint=f"If it is a database of MLflow: --tracking-uri sqlite:///{path}",
            )


def _url(address: str) -> Any:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(address)
    except (ArgumentError, ValueError) as error:
        raise InputError(
            "This is no address of a database.",
            where=f"--tracking-uri {shown(address)}",
            hint="sqlite:///mlflow.db is the file mlflow.db in this folder; before a full path stand four strokes.",
        ) from error


def _sqlite(address: str) -> Store:
    url = _url(address)
    where = f"--tracking-uri {shown(address)}"
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:"):
        raise InputError(
            "The store has to be a file that stays.", where=where, hint="Give one, such as sqlite:///mlflow.db"
        )
    path = Path(name).absolute()
    _check_sqlite(path, where)
    full = url.set(database=str(path)).render_as_string(hide_password=False)
    return Store(address=full, kind="sqlite", files=path.parent / FOLDER)


def _check_sqlite(path: Path, where: str) -> None:
    if path.is_dir():
        raise InputError("This is a folder, and no database.", where=where, hint=f"--tracking-uri {path}")
    if not path.parent.is_dir():
        raise InputError("The database is in a folder that is not there.", where=where, hint="Make the folder first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError("The database cannot be written.", where=where, hint="Give one of your own.")
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return
    tables = _tables(path)
    if tables is None:
        raise InputError("The file is no database of SQLite.", where=where, hint="Give another path.")
    if tables and not {"experiments", "runs"} <= tables:
        raise InputError(
            "The database is another program's: it has tables, and none of MLflow.",
            where=where,
            hint="Give a path of its own, such as sqlite:///mlflow.db",
        )


def _tables(path: Path) -> set[str] | None:
    """Return the tables of a file of SQLite, or None where it is none."""
    try:
        # Opening a pipe would wait for somebody to write into it.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                return None
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as found:
            return {str(row[0]) for row in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (OSError, sqlite3.Error):
        return None


def _elsewhere(address: str) -> Store:
    """Ask a server of databases once, since MLflow would go on asking."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    where = f"--tracking-uri {shown(address)}"
    url = _url(address)
    try:
        engine = create_engine(url)
    except ImportError as error:
        name = _DRIVERS.get(error.name or "", error.name)
        raise InputError(
            f"The driver of this database is not installed: {error.name}.",
            where=where,
            hint=f"pip install {name!r}, or name another, as in {_backend(address)}+DRIVER://",
        ) from error
    except NoSuchModuleError as error:
        raise InputError(f"There is no such driver: {first_line(error)}", where=where, hint="Leave it out.") from error
    try:
        with engine.connect():
            return Store(address=address, kind="database")
    except (SQLAlchemyError, OSError) as error:
        raise InputError(
            f"The database does not answer: {shown(first_line(getattr(error, 'orig', None) or error))}",
            where=where,
            hint="Start it, or check address, name and password.",
        ) from error
    finally:
        engine.dispose()


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """Let no other export of this user into a store of this machine.

    Two at once would both make the tables of an empty database, and the same report would be logged twice. The lock is
    one of SQLite, on a file in the user's cache: it exists on every system, and ends with the process.

    Raises
    ------
    InputError
        Where another export keeps it for minutes.
    """
    if store.kind not in ("folder", "sqlite"):
        yield
        return
    folder = Cache.default().folder / "mlflow"
    name = folder / f"{sha256_json(os.path.realpath(urlsplit(store.address).path))}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise InputError(
            f"The cache cannot be written: {first_line(error)}",
            where=str(folder),
            hint=f"Name a folder of yours with {VARIABLE}.",
        ) from error
    with closing(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise InputError(
                "Another export is busy with this store.", where=store.where, hint="Wait for it, then try again."
            ) from error
        yield


def experiment(client: Any, store: Store, name: str) -> str:
    """Return the id of an experiment, which is made where there is none.

    Raises
    ------
    InputError
        Where it was deleted, or nobody has said where the files of a new one go.
    """
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None and store.kind == "database":
        raise InputError(
            f"There is no experiment {name!r}, and a new one would keep its files on this machine alone.",
            where="--experiment",
            hint=f"Say where they go: mlflow experiments create -n {name!r} -l LOCATION",
        )
    if found is None:
        files = None if store.files is None else (store.files / safe(name)).as_uri()
        try:
            return str(client.create_experiment(name, files))
        except MlflowException:
            # Another program may have made it by now.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise InputError(
            f"The experiment {name!r} was deleted.", where="--experiment", hint="Restore it, or give another name."
        )
    return str(found.experiment_id)


def check_files(locate: Callable[[], str], address: str, experiment: str) -> None:
    """Refuse an experiment that would send its files out of a store on this machine.

    Parameters
    ----------
    locate
        Asks the store where they go; it may have come with a folder that somebody else made.

    Raises
    ------
    InputError
        Where they leave it.
    """
    from mlflow.utils.file_utils import get_local_path_or_none, local_file_uri_to_path

    scheme = urlsplit(address).scheme
    if scheme != "file" and not scheme.startswith("sqlite"):
        return
    location = locate()
    files = get_local_path_or_none(location)
    inside = files is not None
    if scheme == "file" and files is not None:
        root = Path(os.path.realpath(local_file_uri_to_path(address)))
        # Metrics and parameters go to the folder of the experiment, which may be a link out of the store too.
        inside = all(Path(os.path.realpath(path)).is_relative_to(root) for path in (files, root / experiment))
    if not inside:
        raise InputError(
            f"The files of this experiment go elsewhere: {shown(location)[:300]}",
            where=f"--tracking-uri {shown(address)}",
            hint="Give another --experiment, or another store: this one sends them out of its folder.",
        )


def safe(value: object) -> str:
    """Return a part of a key or a path; a point stays only in numbers, since it separates the parts of a key.

    Examples
    --------
    >>> safe("age & sex"), safe(0.25), safe("../x")
    ('age___sex', '0.25', '___x')
    """
    text = line(f"{value:.6g}" if isinstance(value, float) else value)
    kept = r"[^A-Za-z0-9_.-]" if re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", text) else r"[^A-Za-z0-9_-]"
    return re.sub(kept, "_", text) or "_"
