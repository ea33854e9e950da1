package constants

// KubeflowName is the name of everything.
const KubeflowName = "kubeflow"

// Defaults of the widgets.
const (
	// Replica defaults, applied by the webhook.
	DefaultMinReplicas = 1
	DefaultMaxReplicas = 10

	// Names of the annotations that a user may set.
	AnnotationAlphaKey = "widgets.kubeflow.org/alpha-with-a-rather-long-name"
	AnnotationBravoKey = "widgets.kubeflow.org/bravo-with-a-rather-long-name"
	AnnotationCharlieKey = "widgets.kubeflow.org/charlie-with-a-rather-long-name"
	AnnotationDeltaKey = "widgets.kubeflow.org/delta-with-a-rather-long-name"
	AnnotationEchoKey = "widgets.kubeflow.org/echo-with-a-rather-long-name"
	AnnotationFoxtrotKey = "widgets.kubeflow.org/foxtrot-with-a-rather-long-name"
	AnnotationGolfKey = "widgets.kubeflow.org/golf-with-a-rather-long-name"
	AnnotationHotelKey = "widgets.kubeflow.org/hotel-with-a-rather-long-name"
	AnnotationIndiaKey = "widgets.kubeflow.org/india-with-a-rather-long-name"
	AnnotationJuliettKey = "widgets.kubeflow.org/juliett-with-a-rather-long-name"

	// Ports that the servers listen on.
	PortHttp = 8000
	PortGrpc = 8001
	PortMetrics = 8002
	PortHealth = 8003
	PortAdmin = 8004
	PortDebug = 8005
)

var (
	// DefaultParallelSpins is the default value of spec.parallelSpinCount.
	DefaultParallelSpins int32 = 3
)
