"""The part of a Milvus server that Milvus Lite lacks: databases, users, roles and rights, over real gRPC.

Answers pymilvus with the messages of its own protocol, checks the password of each call as the proxy of Milvus does,
and refuses what Milvus refuses: a second user or role of a name, a right that it does not know, a role that is used.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc

# From the documentation of 2.5 and 2.6, "Grant Privilege or Privilege Group to Roles".
_SEARCHING = [
    "Search",
    "Query",
    "Load",
    "Release",
    "GetLoadState",
    "GetLoadingProgress",
    "GetStatistics",
    "IndexDetail",
]
_NAMING = ["DescribeCollection", "DescribeAlias", "ListAliases", "ShowCollections", "ListDatabases"]
_MAKING = ["CreateCollection", "DropCollection", "CreateIndex", "DropIndex", "CreateAlias", "DropAlias"]
_WRITING = ["Insert", "Upsert", "Delete", "Flush", "GetFlushState", "Import", "Compaction", "LoadBalance"]
PRIVILEGES = frozenset([*_SEARCHING, *_NAMING, *_MAKING, *_WRITING, "CreateDatabase", "DropDatabase"])
Grant = tuple[str, str, str, str]


@dataclass
class MilvusRoles(milvus_pb2_grpc.MilvusServiceServicer):
    """A new server: root with the published password, one database."""

    passwords: dict[str, str] = field(default_factory=lambda: {"root": "Milvus"})
    databases: set[str] = field(default_factory=lambda: {"default"})
    roles: set[str] = field(default_factory=lambda: {"admin", "public"})
    roles_of: dict[str, set[str]] = field(default_factory=dict)
    # (role, privilege, database, collection)
    grants: set[Grant] = field(default_factory=set)
    changes: list[str] = field(default_factory=list)
    uri: str = ""

    def privileges(self, role: str) -> set[str]:
        return {privilege for name, privilege, _, _ in self.grants if name == role}

    def _changed(self, what: str) -> Any:
        self.changes.append(what)
        return _status()

    def Connect(self, request: Any, context: Any) -> Any:
        info = common_pb2.ServerInfo(build_tags="v2.6.0", deploy_mode="STANDALONE")
        return milvus_pb2.ConnectResponse(status=_status(), identifier=1, server_info=info)

    def GetVersion(self, request: Any, context: Any) -> Any:
        return milvus_pb2.GetVersionResponse(status=_status(), version="v2.6.0")

    def ListDatabases(self, request: Any, context: Any) -> Any:
        return milvus_pb2.ListDatabasesResponse(status=_status(), db_names=sorted(self.databases))

    def CreateDatabase(self, request: Any, context: Any) -> Any:
        if request.db_name in self.databases:
            return _status("database already exist")
        self.databases.add(request.db_name)
        return self._changed(f"database {request.db_name}")

    def ListCredUsers(self, request: Any, context: Any) -> Any:
        return milvus_pb2.ListCredUsersResponse(status=_status(), usernames=sorted(self.passwords))

    def CreateCredential(self, request: Any, context: Any) -> Any:
        if request.username in self.passwords:
            return _status("user already exists")
        self.passwords[request.username] = base64.b64decode(request.password).decode()
        return self._changed(f"user {request.username}")

    def UpdateCredential(self, request: Any, context: Any) -> Any:
        if self.passwords.get(request.username) != base64.b64decode(request.oldPassword).decode():
            return _status("old password not correct")
        self.passwords[request.username] = base64.b64decode(request.newPassword).decode()
        return self._changed(f"password {request.username}")

    def DeleteCredential(self, request: Any, context: Any) -> Any:
        del self.passwords[request.username]
        self.roles_of.pop(request.username, None)
        return self._changed(f"no user {request.username}")

    def SelectUser(self, request: Any, context: Any) -> Any:
        name = request.user.name
        roles = [milvus_pb2.RoleEntity(name=role) for role in sorted(self.roles_of.get(name, ()))]
        result = milvus_pb2.UserResult(user=milvus_pb2.UserEntity(name=name), roles=roles)
        return milvus_pb2.SelectUserResponse(status=_status(), results=[result])

    def CreateRole(self, request: Any, context: Any) -> Any:
        if request.entity.name in self.roles:
            return _status("role already exists")
        self.roles.add(request.entity.name)
        return self._changed(f"role {request.entity.name}")

    def SelectRole(self, request: Any, context: Any) -> Any:
        wanted = [request.role.name] if request.role.name else sorted(self.roles)
        results = [milvus_pb2.RoleResult(role=milvus_pb2.RoleEntity(name=name)) for name in wanted]
        return milvus_pb2.SelectRoleResponse(status=_status(), results=results)

    def OperateUserRole(self, request: Any, context: Any) -> Any:
        held = self.roles_of.setdefault(request.username, set())
        if request.type == milvus_pb2.AddUserToRole:
            held.add(request.role_name)
        else:
            held.discard(request.role_name)
        return self._changed(f"{request.username} {request.role_name}")

    def OperatePrivilegeV2(self, request: Any, context: Any) -> Any:
        name = request.grantor.privilege.name
        if name not in PRIVILEGES:
            return _status(f"not found the privilege name[{name}]")
        grant = (request.role.name, name, request.db_name, request.collection_name)
        if request.type == milvus_pb2.Grant:
            self.grants.add(grant)
        else:
            self.grants.remove(grant)
        return self._changed(f"grant {grant}")

    def SelectGrant(self, request: Any, context: Any) -> Any:
        role, where = request.entity.role.name, request.entity.db_name or "default"
        entities = [
            milvus_pb2.GrantEntity(
                role=milvus_pb2.RoleEntity(name=role),
                object=milvus_pb2.ObjectEntity(name="Collection"),
                object_name=collection,
                db_name=database,
                grantor=milvus_pb2.GrantorEntity(
                    user=milvus_pb2.UserEntity(name="root"), privilege=milvus_pb2.PrivilegeEntity(name=privilege)
                ),
            )
            for name, privilege, database, collection in sorted(self.grants)
            if name == role and where in ("*", database)
        ]
        return milvus_pb2.SelectGrantResponse(status=_status(), entities=entities)


@dataclass
class _Passwords(grpc.ServerInterceptor):
    server: MilvusRoles

    def intercept_service(self, proceed: Callable[[Any], Any], details: Any) -> Any:
        sent = dict(details.invocation_metadata).get("authorization", "")
        name, _, password = base64.b64decode(sent).decode().partition(":")
        if self.server.passwords.get(name) == password:
            return proceed(details)

        def refuse(request: Any, context: Any) -> None:
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check api key or username and password"
            )

        return grpc.unary_unary_rpc_method_handler(refuse)


@contextmanager
def milvus_roles() -> Iterator[MilvusRoles]:
    servicer = MilvusRoles()
    server = grpc.server(ThreadPoolExecutor(4), interceptors=[_Passwords(servicer)])
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    servicer.uri = f"http://127.0.0.1:{port}"
    try:
        yield servicer
    finally:
        server.stop(0).wait()


def _status(reason: str = "") -> Any:
    return common_pb2.Status(code=1 if reason else 0, error_code=1 if reason else 0, reason=reason)
