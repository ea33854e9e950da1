#!/usr/bin/env bash
set -euo pipefail

# Loads the images of a release into a kind cluster, for machines without a registry.
load_images() {
  for image in controller agent storage-initializer; do
    kind load docker-image "beehive/${image}:$1" --name "${KIND_CLUSTER:-bees}"
  done
}

load_images "${1:?release}"
