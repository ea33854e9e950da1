package constants

// Defaults of hives. The webhook applies them.
const (
	// DefaultMinReplicas is how many pods a predictor has at least.
	DefaultMinReplicas = 2
	// DefaultScaleTarget is how many requests one pod should have at a time.
	DefaultScaleTarget = 5
	// DefaultTimeoutSeconds is how long a prediction may take.
	DefaultTimeoutSeconds = 60
)

// Annotations and labels that people may set on a hive.
const (
	DeploymentModeAnnotationKey = "beehive.example/deploymentMode"
	EnableMetricAggregation     = "beehive.example/enable-metric-aggregation"
	StopAnnotationKey           = "beehive.example/stop"
)

// Environment variables of the storage initializer.
const (
	S3EndpointEnvKey     = "AWS_ENDPOINT_URL"
	S3VerifySslEnvKey    = "S3_VERIFY_SSL"
	ModelDirEnvKey       = "MODEL_DIR"
	DefaultModelMountDir = "/mnt/models"
)
