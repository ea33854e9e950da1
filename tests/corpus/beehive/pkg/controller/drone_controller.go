package controller

import (
	"context"
	"fmt"
)

// Reasons of events that a drone may have.
const (
	// MissedFlight says that a flight began too late and was skipped.
	MissedFlight = "MissedFlight"
	// TooManyMissed says that more than a hundred flights were missed and none of them is made up for.
	TooManyMissed = "TooManyMissedFlights"
)

// maxMissedFlights is how many missed flights are looked at before the controller gives up.
const maxMissedFlights = 100

// DroneReconciler starts flights by their schedule.
type DroneReconciler struct{}

// Reconcile starts the flight that is due, unless the drone is suspended.
func (r *DroneReconciler) Reconcile(ctx context.Context, name string) error {
	missed := r.missedFlights(name)
	if missed > maxMissedFlights {
		return fmt.Errorf("drone %s: too many missed flights (%d): set startingDeadlineSeconds or check the clock", name, missed)
	}
	return nil
}

func (r *DroneReconciler) missedFlights(name string) int {
	return len(name)
}
