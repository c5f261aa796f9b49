package report

import (
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// maxTenants bounds the tenants that a summary tells apart.
const maxTenants = 200

// Summary is a result in figures.
type Summary struct {
	Target     string   `json:"target"`
	TookS      float64  `json:"took_s"`
	Whole      []Group  `json:"whole"`   // of the whole run; the first is all
	Windows    []Window `json:"windows"` // by time of arrival
	Retries    int      `json:"retries"`
	Reconnects int      `json:"reconnects"`       // the sum of the next two
	Lost       int      `json:"lost"`             // connections that the other side ended
	Left       int      `json:"left"`             // connections that clients gave up
	Unable     int      `json:"unable"`           // connections that could not be opened
	LagMS      Spread   `json:"lag_ms"`           // how late the generator was
	Servers    *Servers `json:"servers,omitzero"` // if Postgres was watched
	Refusal    string   `json:"refusal,omitzero"` // the first
	Failure    string   `json:"failure,omitzero"` // the first
	Seconds    []Second `json:"seconds"`
}

// Servers is what Postgres said.
type Servers struct {
	Most      int    `json:"backends_most"`
	Busy      int    `json:"busy_most"`
	Executed  *int64 `json:"executed,omitzero"` // statements, if they were counted
	Wasted    *int64 `json:"wasted,omitzero"`   // of these, for clients that had no use for them
	Unsettled bool   `json:"unsettled,omitzero"`
}

// Window is a stretch of the run.
type Window struct {
	Name   string  `json:"name"`
	FromS  float64 `json:"from_s"`
	ToS    float64 `json:"to_s"`
	Groups []Group `json:"groups"` // the first is all
}

// Group is some of the requests.
type Group struct {
	By   string `json:"by"` // all, class, stream or tenant
	Name string `json:"name,omitzero"`
	Figures
}

// Figures are what came of some requests.
type Figures struct {
	Asked   int      `json:"asked"`
	Served  int      `json:"served"`
	Refused int      `json:"refused"`
	Stopped int      `json:"stopped"`
	GaveUp  int      `json:"gave_up"`
	Failed  int      `json:"failed"`
	Unsent  int      `json:"unsent"`
	Retries int      `json:"retries"`
	Goodput float64  `json:"goodput_per_s"`
	TookMS  Spread   `json:"took_ms"` // of those served
	ToldMS  Spread   `json:"told_ms"` // of refusals
	Why     []Reason `json:"why,omitzero"`

	perSecond float64 // what one request is
}

// Spread is percentiles, in milliseconds.
type Spread struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Reason is why attempts were not served.
type Reason struct {
	Outcome string `json:"outcome"`
	Code    string `json:"sqlstate,omitzero"`
	Reason  string `json:"reason,omitzero"`
	Fatal   bool   `json:"fatal,omitzero"`
	N       int    `json:"n"`
}

// Summarize reduces a result to its figures.
func Summarize(r *bench.Result) Summary {
	s := Summary{
		Target: r.Target, TookS: r.Took.Seconds(), Retries: r.Counts.Retries,
		Reconnects: r.Counts.Reconnects(), Lost: r.Counts.Lost, Left: r.Counts.Left, Unable: r.Counts.Unable,
		LagMS: spread(r.Lag()), Seconds: seconds(r),
	}
	groups := groupsOf(r)
	s.Whole = sums(r, groups, 0, 0)
	for _, w := range r.Load.Windows() {
		s.Windows = append(s.Windows, Window{w.Name, w.From.Seconds(), w.To.Seconds(), sums(r, groups, w.From, w.To)})
	}
	if r.Watched {
		s.Servers = &Servers{Most: r.Most.Open, Busy: r.Most.Busy, Unsettled: r.Unsettled}
		if r.Counted {
			executed, wasted := r.Most.Executed, r.Wasted()
			s.Servers.Executed, s.Servers.Wasted = &executed, &wasted
		}
	}
	if e := r.Refusal; e != nil {
		s.Refusal = e.Severity + " " + e.Code + ": " + e.Message
		if e.Detail != "" {
			s.Refusal += "; DETAIL: " + e.Detail
		}
		if e.Hint != "" {
			s.Refusal += "; HINT: " + e.Hint
		}
	}
	if r.Failure != nil {
		s.Failure = r.Failure.Error()
	}
	return s
}

// group is how some requests are chosen.
type group struct {
	by, name string
	filter   bench.Filter
}

// groupsOf are the groups that a result's load has: all, and what has more than one.
func groupsOf(r *bench.Result) []group {
	list := []group{{by: "all"}}
	var classes, streams, tenants []string
	add := func(to *[]string, name string) {
		if name != "" && !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for i := range r.Load.Streams {
		s := &r.Load.Streams[i]
		add(&classes, s.Class)
		add(&streams, s.Title())
		for _, t := range s.Tenants {
			if len(tenants) < maxTenants {
				add(&tenants, t)
			}
		}
	}
	if len(classes) > 1 {
		for _, name := range classes {
			list = append(list, group{"class", name, bench.Filter{Class: name}})
		}
	}
	if len(streams) > 1 && !slices.Equal(streams, classes) {
		for _, name := range streams {
			list = append(list, group{"stream", name, bench.Filter{Stream: name}})
		}
	}
	if len(tenants) > 1 && !slices.Equal(tenants, streams) {
		for _, name := range tenants {
			list = append(list, group{"tenant", name, bench.Filter{Tenant: name}})
		}
	}
	return list
}

// sums are the figures of groups in a stretch of time; to 0 is the end.
func sums(r *bench.Result, groups []group, from, to time.Duration) []Group {
	var list []Group
	for _, g := range groups {
		g.filter.From, g.filter.To = from, to
		list = append(list, Group{g.by, g.name, figures(r.Sum(g.filter))})
	}
	return list
}

func figures(s bench.Sum) Figures {
	f := Figures{
		Asked: s.Asked, Served: s.By[bench.Served], Refused: s.By[bench.Refused], Stopped: s.By[bench.Stopped],
		GaveUp: s.By[bench.GaveUp], Failed: s.By[bench.Failed], Unsent: s.By[bench.Unsent], Retries: s.Retries,
		Goodput: s.Goodput(), TookMS: spread(s.Took), ToldMS: spread(s.Told), perSecond: s.Rate(1),
	}
	for _, w := range s.Why {
		f.Why = append(f.Why, Reason{w.Outcome.String(), w.Code, w.Reason, w.Fatal, w.N})
	}
	return f
}

func spread(t bench.Times) Spread {
	return Spread{len(t), ms(t.At(50)), ms(t.At(90)), ms(t.At(99)), ms(t.At(99.9)), ms(t.Max())}
}

// ms is a duration in milliseconds, to a microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latest is how late the generator may be before a run says more of it than of its target.
const latest = 100

// lagging reports that it was.
func (s *Summary) lagging() bool { return s.LagMS.P99 > latest }
