"""Database, roles and users of Milvus: who may read, who may write, and nobody more than that.

Everything here says what should be and makes it so: doing it twice changes nothing, and a right that is granted but
not listed is taken away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.errors import SettingsError, StoreUnavailable
from kubeflow_corpus.milvus import connect, disconnect, store_errors
from kubeflow_corpus.settings import Secret, Settings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

ROOT: Final = "root"
# Every new server has it; a server that keeps it is open to anybody.
PUBLISHED_PASSWORD: Final = Secret("Milvus")
ANY_COLLECTION: Final = "*"

# What the query library calls. Load: a collection is not loaded after a restart of the server.
READER: Final = frozenset(
    {
        "Search",
        "Query",
        "Load",
        "GetLoadState",
        "GetLoadingProgress",
        "DescribeCollection",
        "DescribeAlias",
        "ListAliases",
        "IndexDetail",
    }
)
# What the steps of a run call besides. Properties are changed with the right to create, aliases are moved with theirs.
WRITER: Final = READER | {
    "ShowCollections",
    "CreateCollection",
    "DropCollection",
    "CreateIndex",
    "CreateAlias",
    "DropAlias",
    "Insert",
    "Upsert",
    "Delete",
    "Flush",
    "GetFlushState",
}


@dataclass(frozen=True, slots=True)
class User:
    """A user of Milvus and what it may do.

    Attributes:
        name: Its name.
        password: Its password.
        role: Its only role.
        privileges: What that role may do, on every collection of the database.
    """

    name: str
    password: Secret
    role: str
    privileges: frozenset[str]


@dataclass(frozen=True, slots=True)
class Access:
    """What should be.

    Attributes:
        database: The database; empty is ``default``.
        root_password: Password that root has, or gets.
        users: The reader and the writer.
    """

    database: str
    root_password: Secret
    users: tuple[User, ...]

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Access:
        """Reads ``MILVUS_DATABASE``, ``MILVUS_ROOT_PASSWORD`` and, for ``READER`` and ``WRITER``, user and password.

        Raises:
            SettingsError: One is missing, or two users are the same.
        """
        env = os.environ if environ is None else environ

        def needed(name: str) -> str:
            value = env.get(name, "").strip()
            if not value:
                raise SettingsError(
                    f"{name} is not set", remedy="Fill the Secrets of manifests/secrets/templates.yaml", setting=name
                )
            return value

        users = tuple(
            User(
                needed(f"MILVUS_{which}_USER"),
                Secret(needed(f"MILVUS_{which}_PASSWORD")),
                f"kubeflow_corpus_{which.lower()}",
                privileges,
            )
            for which, privileges in (("READER", READER), ("WRITER", WRITER))
        )
        root_password = Secret(needed("MILVUS_ROOT_PASSWORD"))
        if len({ROOT, *(user.name for user in users)}) != 3:
            raise SettingsError(
                "Reader, writer and root are not three users",
                remedy="Give MILVUS_READER_USER and MILVUS_WRITER_USER names of their own",
            )
        if root_password == PUBLISHED_PASSWORD:
            raise SettingsError("MILVUS_ROOT_PASSWORD is the one that everybody knows", remedy="Choose another")
        return cls(env.get("MILVUS_DATABASE", "").strip() or "default", root_password, users)


def open_as_root(uri: str, access: Access) -> tuple[MilvusClient, Settings, bool]:
    """Opens Milvus as root; on a new server, root's published password is replaced first.

    Returns:
        The client, the settings to give it back with, and whether the password was replaced.

    Raises:
        StoreUnavailable: The server does not answer, or knows neither password.
    """
    wanted = Settings(milvus_uri=uri, milvus_user=ROOT, milvus_password=access.root_password)
    # pymilvus says the same of a wrong password as of a server that is down, so the other password decides.
    with suppress(StoreUnavailable):
        return _checked(wanted), wanted, False
    fresh = Settings(milvus_uri=uri, milvus_user=ROOT, milvus_password=PUBLISHED_PASSWORD)
    try:
        client = _checked(fresh)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"Milvus at {uri} does not answer, or lets root in neither with MILVUS_ROOT_PASSWORD nor as a new server",
            remedy="Check that the server is up, and that the Secret holds the password that root has",
        ) from error
    with store_errors("Milvus"):
        client.update_password(ROOT, PUBLISHED_PASSWORD.reveal(), access.root_password.reveal())
    disconnect(client, fresh)
    return connect(wanted), wanted, True


def _checked(settings: Settings) -> MilvusClient:
    client = connect(settings)
    with store_errors("Milvus"):
        # Only a call shows whether the password is right.
        client.list_users()
    return client


def ensure_access(client: MilvusClient, access: Access) -> Iterator[str]:
    """Makes the server what `access` says, and yields a line for each thing that it changed.

    Args:
        client: Connected as root.
        access: What should be.

    Raises:
        StoreError: The server refused.
    """
    with store_errors("Milvus"):
        if access.database not in client.list_databases():
            client.create_database(access.database)
            yield f"database {access.database}: created"
        for user in access.users:
            yield from _ensure_role(client, access.database, user)
            yield from _ensure_user(client, user)


def _ensure_role(client: MilvusClient, database: str, user: User) -> Iterator[str]:
    if user.role not in client.list_roles():
        client.create_role(user.role)
        yield f"role {user.role}: created"
    held = {
        (grant["privilege"], grant.get("object_name", ANY_COLLECTION), grant.get("db_name", database))
        # Of every database: a right elsewhere is one too many.
        for grant in client.describe_role(user.role, db_name="*").get("privileges", ())
    }
    wanted = {(privilege, ANY_COLLECTION, database) for privilege in user.privileges}
    for privilege, collection, where in sorted(wanted - held):
        client.grant_privilege_v2(user.role, privilege, collection, db_name=where)
        yield f"role {user.role}: granted {privilege}"
    for privilege, collection, where in sorted(held - wanted):
        client.revoke_privilege_v2(user.role, privilege, collection, db_name=where)
        yield f"role {user.role}: took away {privilege} on {where}.{collection}"


def _ensure_user(client: MilvusClient, user: User) -> Iterator[str]:
    if user.name not in client.list_users():
        client.create_user(user.name, user.password.reveal())
        yield f"user {user.name}: created"
    roles = set(client.describe_user(user.name).get("roles", ()))
    if user.role not in roles:
        client.grant_role(user.name, user.role)
        yield f"user {user.name}: got role {user.role}"
    for role in sorted(roles - {user.role}):
        client.revoke_role(user.name, role)
        yield f"user {user.name}: lost role {role}"


def ensure_passwords(uri: str, client: MilvusClient, access: Access) -> Iterator[str]:
    """Gives users the password of `access` where they have another one, and yields a line for each.

    A user whose password is not known cannot be given one: it is made anew.

    Args:
        uri: The server.
        client: Connected as root.
        access: What should be.
    """
    for user in access.users:
        settings = Settings(
            milvus_uri=uri, milvus_user=user.name, milvus_password=user.password, milvus_database=access.database
        )
        try:
            own = connect(settings)
        except StoreUnavailable:
            # The server is up, as root knows: it is the password.
            with store_errors("Milvus"):
                client.drop_user(user.name)
                client.create_user(user.name, user.password.reveal())
                client.grant_role(user.name, user.role)
            yield f"user {user.name}: got its new password"
        else:
            disconnect(own, settings)
