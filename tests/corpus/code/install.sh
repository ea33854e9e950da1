#!/usr/bin/env bash
# Copyright 2026 The Kubeflow Authors. Licensed under the Apache License.

set -euo pipefail

# Waits for the pods of a namespace.
wait_for_pods() {
  kubectl wait pods --all -n "$1"
}

wait_for_pods kubeflow
