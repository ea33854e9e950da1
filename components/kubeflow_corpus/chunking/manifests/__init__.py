"""Kubernetes objects: CRDs whole, joined with the Go types behind them."""
