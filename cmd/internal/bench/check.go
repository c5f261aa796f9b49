package bench

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pgweir/pgweir/admission"
)

// maxArrivals bounds the records of a run, which are kept in memory.
const maxArrivals = 5_000_000

// Check says what is wrong with a load, or nil.
func (l *Load) Check() error {
	if len(l.Streams) == 0 {
		return errors.New("a load needs a stream")
	}
	rate := 0.0
	for _, p := range l.Phases {
		if !(p.Rate >= 0 && p.Rate <= 1e6) || p.For <= 0 {
			return fmt.Errorf("phase %gx%v: a rate from 0 to 1,000,000 per second for a positive time", p.Rate, p.For)
		}
		rate += p.Rate * p.For.Seconds()
	}
	if rate > maxArrivals {
		return fmt.Errorf("%.0f arrivals are more than %d", rate, maxArrivals)
	}
	seen := map[string]bool{}
	for i := range l.Streams {
		s := &l.Streams[i]
		if err := s.check(l.Length()); err != nil {
			return fmt.Errorf("stream %s: %w", s.Title(), err)
		}
		if seen[s.Title()] {
			return fmt.Errorf("two streams are called %s", s.Title())
		}
		seen[s.Title()] = true
	}
	if rate > 0 && l.shares() <= 0 {
		return errors.New("no stream has a share of the phases")
	}
	return nil
}

// check says what is wrong with a stream of a run of some length.
func (s *Stream) check(length time.Duration) error {
	switch _, ok := admission.ParseClass(s.Class); {
	case s.Class != "" && !ok:
		return fmt.Errorf("%q is no class", s.Class)
	case !(s.Share >= 0) || math.IsInf(s.Share, 0):
		return fmt.Errorf("a share of %g", s.Share)
	case !(s.Rate >= 0 && s.Rate <= 1e6):
		return fmt.Errorf("a rate of %g per second", s.Rate)
	case s.Clients < 0 || s.Each < 0 || s.Think < 0 || s.Churn < 0 || s.ReadRate < 0 || s.Patience < 0:
		return errors.New("something is negative")
	case s.Clients > 0 && (s.Share > 0 || s.Rate > 0):
		return errors.New("clients that wait for their answers have no share and no rate")
	case s.Clients == 0 && (s.Each > 0 || s.Think > 0):
		return errors.New("each and think are for a number of clients")
	case s.Share > 0 && s.Rate > 0:
		return errors.New("a share and a rate exclude each other")
	case length == 0 && (s.Rate > 0 || s.Clients > 0 && s.Each == 0):
		return errors.New("it has no end: it needs phases")
	case s.Retry.Most < 0 || s.Retry.Most > 100 || s.Retry.Delay < 0:
		return errors.New("0 to 100 retries after no negative time")
	case s.NameTenants && len(s.Tenants) == 0:
		return errors.New("there is no tenant to be named")
	case len(s.Queries) == 0:
		return errors.New("it needs a query")
	}
	for i := range s.Queries {
		if err := s.Queries[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// check says what is wrong with a query.
func (q *Query) check() error {
	switch {
	case len(q.Statements) == 0:
		return errors.New("a query without a statement")
	case q.Repeat < 0 || q.Pause < 0 || q.IDs < 0:
		return errors.New("something of a query is negative")
	case !(q.Weight >= 0) || math.IsInf(q.Weight, 0):
		return fmt.Errorf("a weight of %g", q.Weight)
	case q.Work.Mean < 0 || !(q.Work.Sigma >= 0 && q.Work.Sigma <= 5):
		return errors.New("work is a time and a sigma from 0 to 5")
	}
	return nil
}
