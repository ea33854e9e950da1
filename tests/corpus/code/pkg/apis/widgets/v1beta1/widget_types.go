/*
Copyright 2026 The Kubeflow Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
*/

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Widget is the schema of the widgets API.
// +kubebuilder:object:root=true
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec,omitempty"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec says what a widget serves.
type WidgetSpec struct {
	// Server is the component that answers requests.
	Server ServerSpec `json:"server"`
	// ParallelSpinCount is how many spins run at the same time.
	ParallelSpinCount *int32 `json:"parallelSpinCount,omitempty"`
	// Mode chooses how a widget turns.
	// +kubebuilder:validation:Enum=Slow;Fast
	// +kubebuilder:default=Slow
	Mode WidgetMode `json:"mode,omitempty"`
}

// ServerSpec is one component of a widget.
type ServerSpec struct {
	ScalingSpec `json:",inline"`

	// Image of the server.
	Image string `json:"image,omitempty"`
}

// ScalingSpec defines how a component scales.
type ScalingSpec struct {
	// Fewest replicas of the component; zero lets it sleep.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// Most replicas of the component.
	// +optional
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
}

// WidgetMode is how a widget turns.
type WidgetMode string

// Ways in which a widget turns.
const (
	ModeSlow WidgetMode = "Slow"
	ModeFast WidgetMode = "Fast"
)

// WidgetStatus is what the controller observed.
type WidgetStatus struct {
	// Ready is whether the widget answers.
	Ready bool `json:"ready,omitempty"`
}
