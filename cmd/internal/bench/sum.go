package bench

import (
	"cmp"
	"slices"
	"time"
)

// Filter chooses requests of a result; the zero value is all of them.
type Filter struct {
	From, To time.Duration // when they were due; To 0 is the end
	Class    string        // empty: any
	Stream   string        // its title; empty: any
	Tenant   string        // empty: any
}

// Sum is what came of some requests.
type Sum struct {
	Length  time.Duration // of the time that was asked for; the run's if it was all
	Asked   int           // requests
	By      [Outcomes]int // requests, by what came of them in the end
	Retries int           // attempts after the first
	Lost    int           // attempts whose connection did not go on, for whatever reason
	Done    int           // statements answered in full, of all requests
	Broken  int           // of these, of requests that were not served in the end
	Took    Times         // of served requests, all attempts together
	Told    Times         // of refused attempts
	Why     []Reason      // of all attempts that were not served, most frequent first
	Last    time.Duration // when the last one ended, since the run began
}

// Reason is a cause with its number.
type Reason struct {
	Cause
	Outcome Outcome
	N       int
}

// Goodput is served requests per second.
func (s Sum) Goodput() float64 { return s.Rate(s.By[Served]) }

// Rate is n per second of the time asked for.
func (s Sum) Rate(n int) float64 { return float64(n) / max(s.Length.Seconds(), 1e-9) }

// Share is the part of the requests that were served, from 0 to 1; 1 if there were none.
func (s Sum) Share() float64 {
	if s.Asked == 0 {
		return 1
	}
	return float64(s.By[Served]) / float64(s.Asked)
}

// Sum adds up the requests that a filter chooses.
func (r *Result) Sum(f Filter) Sum {
	to := f.To
	if to == 0 {
		to = max(r.Load.Length(), r.Took)
	}
	s := Sum{Length: to - f.From}
	if f.To == 0 && f.From < r.Load.Length() {
		s.Length = r.Load.Length() - f.From // arrivals end with the phases
	}
	chosen := r.chooser(f)
	why := map[Reason]int{}
	for i := range r.Records {
		if one := &r.Records[i]; one.Due >= f.From && one.Due < to && chosen(one) {
			s.add(one)
			if one.Outcome != Served {
				why[Reason{Cause: r.Causes[one.Cause], Outcome: one.Outcome}]++
			}
		}
	}
	for reason, n := range why {
		reason.N = n
		s.Why = append(s.Why, reason)
	}
	slices.SortFunc(s.Why, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.String(), b.String()))
	})
	slices.Sort(s.Took)
	slices.Sort(s.Told)
	return s
}

// chooser is the filter without its times.
func (r *Result) chooser(f Filter) func(*Record) bool {
	return func(one *Record) bool {
		s := &r.Load.Streams[one.Stream]
		return (f.Class == "" || s.Class == f.Class) && (f.Stream == "" || s.Title() == f.Stream) &&
			(f.Tenant == "" || (len(s.Tenants) > 0 && s.Tenants[one.Tenant] == f.Tenant))
	}
}

// add takes one attempt into the sum.
func (s *Sum) add(one *Record) {
	s.Done += int(one.Done)
	s.Last = max(s.Last, one.Sent+one.Took)
	if one.Attempt > 1 {
		s.Retries++
	}
	if !one.Kept {
		s.Lost++
	}
	if one.Outcome == Refused {
		s.Told = append(s.Told, one.Took)
	}
	if one.Outcome != Served {
		s.Broken += int(one.Done)
	}
	if !one.Last {
		return
	}
	s.Asked++
	s.By[one.Outcome]++
	if one.Outcome == Served {
		s.Took = append(s.Took, one.Whole)
	}
}

// Lag is how late the generator was: the first attempts' sending after they were due. Where
// a percentile of it comes near a client's patience, the run says nothing.
func (r *Result) Lag() Times {
	var list Times
	for i := range r.Records {
		if one := &r.Records[i]; one.Attempt == 1 {
			list = append(list, max(0, one.Sent-one.Due))
		}
	}
	slices.Sort(list)
	return list
}

// Times are durations in ascending order.
type Times []time.Duration

// At is a percentile from 0 to 100, by nearest rank; 0 if there are none.
func (t Times) At(percent float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	rank := int(percent/100*float64(len(t)) + 0.9999999)
	return t[min(max(rank, 1), len(t))-1]
}

// Max is the longest; 0 if there are none.
func (t Times) Max() time.Duration { return t.At(100) }

// Window is a stretch of a run that is reported.
type Window struct {
	Name     string
	From, To time.Duration
}

// Windows are the stretches that a report shows: the phases, or stretches of Load.Window,
// which are called by the phase that they begin in.
func (l *Load) Windows() []Window {
	var list []Window
	at := time.Duration(0)
	for _, p := range l.Phases {
		list = append(list, Window{p.Title(), at, at + p.For})
		at += p.For
	}
	if l.Window <= 0 {
		return list
	}
	phases := list
	list = nil
	for from := time.Duration(0); from < at; from += l.Window {
		for phases[0].To <= from {
			phases = phases[1:]
		}
		list = append(list, Window{phases[0].Name, from, min(from+l.Window, at)})
	}
	return list
}
