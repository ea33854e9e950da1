package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hive serves a model.
// +kubebuilder:object:root=true
type Hive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HiveSpec `json:"spec,omitempty"`
}

// HiveSpec says which model is served and how.
type HiveSpec struct {
	// Predictor runs the model.
	Predictor PredictorSpec `json:"predictor"`
}

// PredictorSpec is the component that answers predictions.
type PredictorSpec struct {
	// Where the model is, such as s3://bucket/model.
	StorageUri string `json:"storageUri"`
	// Fewest pods of the predictor; zero scales to nothing when no request comes.
	// +kubebuilder:default=2
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// Most pods of the predictor; zero is no limit.
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// Share of the traffic that the newest revision gets, in percent.
	CanaryTrafficPercent *int64 `json:"canaryTrafficPercent,omitempty"`
	// How many requests one pod works on at the same time; zero is no limit.
	ContainerConcurrency *int64 `json:"containerConcurrency,omitempty"`
}
