#!/usr/bin/env bash
# Builds the image with docker, podman or buildah, whichever is there.
#
#   PYTHON_IMAGE=docker.io/library/python:3.13-slim-bookworm@sha256:<digest> IMAGE=<registry>/kubeflow-corpus:<version> manifests/image/build.sh
#
# REQUIREMENTS=requirements.lock adds the embedded parts; PLATFORM=linux/arm64 builds for A1 shapes of OKE; BUILDER names
# one of the three; further arguments go to it.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "error: $1" >&2; exit 1; }
[ -n "${PYTHON_IMAGE:-}" ] || fail "PYTHON_IMAGE is not set. Name the base by digest: PYTHON_IMAGE=docker.io/library/python:3.13-slim-bookworm@sha256:<digest>"
IMAGE="${IMAGE:-localhost/kubeflow-corpus:dev}"
if [ -z "${BUILDER:-}" ]; then
  for BUILDER in docker podman buildah ""; do
    if [ -n "$BUILDER" ] && command -v "$BUILDER" >/dev/null; then break; fi
  done
fi
[ -n "$BUILDER" ] || fail "none of docker, podman and buildah is installed"

words=(-f manifests/image/Containerfile --build-arg "PYTHON_IMAGE=$PYTHON_IMAGE" --build-arg "REQUIREMENTS=${REQUIREMENTS:-requirements-cluster.lock}" -t "$IMAGE")
[ -z "${PLATFORM:-}" ] || words+=(--platform "$PLATFORM")
# docker finds this file by its name.
[ "$BUILDER" = docker ] || words+=(--ignorefile manifests/image/Containerfile.dockerignore)
exec "$BUILDER" build "${words[@]}" "$@" .
