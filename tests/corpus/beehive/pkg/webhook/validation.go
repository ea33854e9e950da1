package webhook

import (
	"errors"
	"fmt"
)

// Messages of hives that are refused.
var (
	errNoStorage    = errors.New("predictor.storageUri is required unless a custom container is given")
	errCanaryRange  = errors.New("canaryTrafficPercent must be between 0 and 100")
	errScaleToZero  = errors.New("minReplicas 0 needs scaleMetric concurrency or rps")
	errReplicaOrder = errors.New("maxReplicas must not be less than minReplicas")
)

// ValidateHive says what is wrong with a hive before it is stored.
func ValidateHive(storage string, canary, minimum, maximum int, metric string) error {
	switch {
	case storage == "":
		return errNoStorage
	case canary < 0 || canary > 100:
		return errCanaryRange
	case minimum == 0 && metric != "concurrency" && metric != "rps":
		return errScaleToZero
	case maximum != 0 && maximum < minimum:
		return errReplicaOrder
	}
	return nil
}

// ValidateDrone checks the cron expression of a drone.
func ValidateDrone(schedule string) error {
	if schedule == "" {
		return fmt.Errorf("unparseable schedule %q", schedule)
	}
	return nil
}
