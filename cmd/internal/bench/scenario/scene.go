package scenario

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Note adds a measurement of a scenario's own. It is safe for concurrent use.
func (o *Outcome) Note(name string, value float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Extra[name] = value
}

// locked guards an outcome's own measurements: events make them while a load runs.
type locked struct{ mu sync.Mutex }

// Connect opens a connection of its own to the front, as a role with an application_name.
func (s *Scene) Connect(ctx context.Context, role, application string) (*pgconn.PgConn, error) {
	return connectTo(ctx, s.Front.URL(role, stage.Database), application)
}

// connectTo opens a connection to a URL.
func connectTo(ctx context.Context, url, application string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	// What the caller's environment says in PG* variables is for other databases.
	config.RuntimeParams, config.ValidateConnect = map[string]string{"application_name": application}, nil
	config.ConnectTimeout = 10 * time.Second
	return pgconn.ConnectConfig(ctx, config)
}

// IsRefusal reports that an error is pgweir's own word.
func IsRefusal(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Message, "pgweir:")
}

// RetryAfter is what the hint of a refusal says; false if it says nothing.
func RetryAfter(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return 0, false
	}
	for word := range strings.FieldsSeq(e.Hint) {
		if text, found := strings.CutPrefix(word, "retry_after_ms="); found {
			ms, err := strconv.ParseInt(text, 10, 64)
			return time.Duration(ms) * time.Millisecond, err == nil
		}
	}
	return 0, false
}

// Scaled is a time of the scenario in this run, which may be a longer or a shorter one.
func (s *Scene) Scaled(d time.Duration) time.Duration { return scale(d, s.Options.Scale) }

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// nan is the value of what could not be measured: no check is met by it.
func nan() float64 { return math.NaN() }
