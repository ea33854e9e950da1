"""Database, roles and users of Milvus: one user reads, one writes, and neither may do more.

Everything here is declarative: running it twice changes nothing, and a privilege that is granted but not listed is
revoked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from kubeflow_corpus.errors import SettingsError, StoreUnavailable
from kubeflow_corpus.milvus import connect, disconnect, store_errors
from kubeflow_corpus.service_settings import ServiceSettings
from kubeflow_corpus.settings import Secret, Settings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

ROOT: Final = "root"
# Every new server has it; a server that keeps it is open to everybody.
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
class MilvusUser:
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


class MilvusAccess(ServiceSettings):
    """The database, and the users that it should have."""

    model_config = SettingsConfigDict(env_prefix="MILVUS_")
    missing_remedy = "Fill the Secrets of manifests/secrets/templates.yaml"

    database: str = Field("default", description="Database of the collections.")
    root_password: SecretStr = Field(description="Password that root has, or gets.")
    reader_user: str = Field(description="Name of the user that only reads.")
    reader_password: SecretStr = Field(description="Password of the user that only reads.")
    writer_user: str = Field(description="Name of the user that writes.")
    writer_password: SecretStr = Field(description="Password of the user that writes.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({ROOT, self.reader_user, self.writer_user}) != 3:
            raise SettingsError(
                "Reader, writer and root are not three users",
                remedy="Give MILVUS_READER_USER and MILVUS_WRITER_USER names of their own",
            )
        if self.root == PUBLISHED_PASSWORD:
            raise SettingsError("MILVUS_ROOT_PASSWORD is the published default password", remedy="Choose another")
        return self

    @property
    def root(self) -> Secret:
        """Password of root."""
        return Secret(self.root_password.get_secret_value())

    @property
    def users(self) -> tuple[MilvusUser, ...]:
        """The reader and the writer."""
        reader, writer = (
            Secret(password.get_secret_value()) for password in (self.reader_password, self.writer_password)
        )
        return (
            MilvusUser(self.reader_user, reader, "kubeflow_corpus_reader", READER),
            MilvusUser(self.writer_user, writer, "kubeflow_corpus_writer", WRITER),
        )


def open_as_root(uri: str, access: MilvusAccess) -> tuple[MilvusClient, Settings, bool]:
    """Opens Milvus as root; on a new server, root's published password is replaced first.

    Returns:
        The client, the settings to close it with, and whether the password was replaced.

    Raises:
        StoreUnavailable: The server does not answer, or accepts neither password.
    """
    wanted = Settings(milvus_uri=uri, milvus_user=ROOT, milvus_password=access.root)
    # pymilvus raises the same for a wrong password as for a server that is down, so the other password decides.
    with suppress(StoreUnavailable):
        return _checked(wanted), wanted, False
    fresh = Settings(milvus_uri=uri, milvus_user=ROOT, milvus_password=PUBLISHED_PASSWORD)
    try:
        client = _checked(fresh)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"Milvus at {uri} does not answer, or accepts neither MILVUS_ROOT_PASSWORD nor a new server's password",
            remedy="Check that the server is up, and that the Secret holds the password that root has",
        ) from error
    with store_errors("Milvus"):
        client.update_password(ROOT, PUBLISHED_PASSWORD.reveal(), access.root.reveal())
    disconnect(client, fresh)
    return connect(wanted), wanted, True


def _checked(settings: Settings) -> MilvusClient:
    client = connect(settings)
    with store_errors("Milvus"):
        # Only a call shows whether the password is right.
        client.list_users()
    return client


def ensure_access(client: MilvusClient, access: MilvusAccess) -> Iterator[str]:
    """Creates the database, roles and users of `access` where they differ, and yields one line per change.

    Args:
        client: Connected as root.
        access: The wanted state.

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


def _ensure_role(client: MilvusClient, database: str, user: MilvusUser) -> Iterator[str]:
    if user.role not in client.list_roles():
        client.create_role(user.role)
        yield f"role {user.role}: created"
    granted = {
        (grant["privilege"], grant.get("object_name", ANY_COLLECTION), grant.get("db_name", database))
        # In every database: a privilege in another one must be revoked too.
        for grant in client.describe_role(user.role, db_name="*").get("privileges", ())
    }
    wanted = {(privilege, ANY_COLLECTION, database) for privilege in user.privileges}
    for privilege, collection, where in sorted(wanted - granted):
        client.grant_privilege_v2(user.role, privilege, collection, db_name=where)
        yield f"role {user.role}: granted {privilege}"
    for privilege, collection, where in sorted(granted - wanted):
        client.revoke_privilege_v2(user.role, privilege, collection, db_name=where)
        yield f"role {user.role}: revoked {privilege} on {where}.{collection}"


def _ensure_user(client: MilvusClient, user: MilvusUser) -> Iterator[str]:
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


def ensure_passwords(uri: str, client: MilvusClient, access: MilvusAccess) -> Iterator[str]:
    """Resets passwords that differ from those of `access`, and yields one line per change.

    Milvus changes a password only for somebody who knows the old one, so such a user is created again.

    Args:
        uri: The server.
        client: Connected as root.
        access: The wanted state.
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
