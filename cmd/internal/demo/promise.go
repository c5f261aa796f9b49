package demo

import (
	"fmt"
	"time"
)

// promise is what pgweir keeps under any load.
type promise struct {
	kept   func(*result) bool
	yes    string // when all phases kept it
	broken func(*result) string
}

// promises are all that the demonstration can see.
func promises() []promise {
	return []promise{
		{
			kept: func(r *result) bool { return r.servers <= budget },
			yes: fmt.Sprintf("Postgres never had more than the %d connections of the budget (counted %d times a second).",
				budget, time.Second/sampleEvery),
			broken: func(r *result) string {
				return fmt.Sprintf("Postgres had %d connections, more than the budget of %d", r.servers, budget)
			},
		},
		{
			kept: func(r *result) bool { return r.lost == 0 },
			yes:  fmt.Sprintf("All %d clients kept their sessions: a refusal is an answer, not a hang-up.", clients),
			broken: func(r *result) string {
				return plural(r.lost, "session") + " ended"
			},
		},
		{
			kept: func(r *result) bool { return r.failed == 0 },
			yes:  "Every arrival was served or refused; there was no other error.",
			broken: func(r *result) string {
				return plural(r.failed, "arrival") + " ended in another error"
			},
		},
		{
			kept:   func(r *result) bool { return r.balanced },
			yes:    "The books balance: every transfer was done in full or not at all.",
			broken: func(*result) string { return "the books do not balance" },
		},
	}
}

// says is the sentence about a promise.
func (p promise) says(results []*result) string {
	for _, r := range results {
		if !p.kept(r) {
			return "BROKEN in phase " + r.phase.name + ": " + p.broken(r) + "."
		}
	}
	return p.yes
}

// broken is ErrBroken unless all promises were kept.
func broken(results []*result) error {
	for _, r := range results {
		for _, p := range promises() {
			if !p.kept(r) {
				return ErrBroken
			}
		}
	}
	return nil
}
