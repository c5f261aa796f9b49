package simulate

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sweep plays the seeds 1 to n, several at once, and adds up. It returns nil when ctx ends
// before.
func Sweep(ctx context.Context, s *Scenario, n int) *Report {
	results := make([]*Result, n)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				results[i] = Run(ctx, s, uint64(i)+1)
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return s.report(results)
}

// length of the load.
func (s *Scenario) length() (sum time.Duration) {
	for _, p := range s.Load {
		sum += p.Length
	}
	return sum
}

// part is a group that is still to be worked out.
type part struct {
	kind, name string
	from, to   int // windows
	streams    func(int) bool
}

func (s *Scenario) report(results []*Result) *Report {
	r := &Report{Scenario: s.Name, Seeds: len(results), Slots: s.Plan.Slots}
	windows := len(results[0].cells)
	r.All = s.group(results, part{kind: "all", name: "all", to: windows})
	for w := range windows {
		r.Windows = append(r.Windows, s.group(results, part{kind: "window", from: w, to: w + 1}))
	}
	for _, p := range s.parts(windows) {
		r.Groups = append(r.Groups, s.group(results, p))
	}
	if len(s.Streams) > 1 && windows > 1 {
		for i := range s.Streams {
			for w := range windows {
				r.Cells = append(r.Cells, s.group(results, part{"stream", s.Streams[i].Name, w, w + 1, func(j int) bool { return i == j }}))
			}
		}
	}
	r.Tenants = s.tenants(results)
	s.totals(r, results)
	return r
}

// parts are the streams, and the workloads and classes that several but not all have.
func (s *Scenario) parts(windows int) (list []part) {
	byWorkload, byClass := map[uint16]int{}, map[string]int{}
	for i := range s.Streams {
		st := &s.Streams[i]
		byWorkload[st.Workload]++
		byClass[st.Class.String()]++
		list = append(list, part{"stream", st.Name, 0, windows, func(j int) bool { return i == j }})
	}
	for w := range s.Workloads {
		if n := byWorkload[uint16(w)]; n > 1 && n < len(s.Streams) {
			list = append(list, part{"workload", s.Workloads[w].Name, 0, windows, func(j int) bool { return s.Streams[j].Workload == uint16(w) }})
		}
	}
	for _, name := range classNames() {
		if n := byClass[name]; n > 1 && n < len(s.Streams) {
			list = append(list, part{"class", name, 0, windows, func(j int) bool { return s.Streams[j].Class.String() == name }})
		}
	}
	return list
}

func (s *Scenario) group(results []*Result, p part) Group {
	window := time.Duration(results[0].window)
	from, to := time.Duration(p.from)*window, min(time.Duration(p.to)*window, s.length())
	if to <= from {
		to = from + window
	}
	g := Group{Kind: p.kind, Name: p.name, From: from.Seconds(), To: to.Seconds()}
	if p.kind == "window" {
		g.Name = fmt.Sprintf("%v-%v", from, to)
	}
	list := make([]Figures, len(results))
	for i, r := range results {
		list[i] = r.sum(p.from, p.to, p.streams).figures(to - from)
	}
	g.Mean, g.Spread = mean(list)
	return g
}

// tenants adds up the tenants of the streams that have several.
func (s *Scenario) tenants(results []*Result) (list []Tenant) {
	n := float64(len(results))
	for i := range s.Streams {
		if s.Streams[i].Tenants < 2 {
			continue
		}
		for number := range s.Streams[i].Tenants {
			t := Tenant{Stream: s.Streams[i].Name, Number: number + 1}
			for _, r := range results {
				one := &r.tenants[i][number]
				t.Arrived += float64(one.arrived) / n
				t.Served += float64(one.served) / n
				t.Refused += float64(one.refused) / n
				t.TimedOut += float64(one.timedOut) / n
				t.Busy += float64(one.busy) / 1e9 / n
			}
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b Tenant) int {
		return cmp.Compare(a.Served*max(b.Arrived, 1), b.Served*max(a.Arrived, 1))
	})
	return list
}

// totals fills in what is not about single pages.
func (s *Scenario) totals(r *Report, results []*Result) {
	n := float64(len(results))
	var closed []int
	for i := range s.Streams {
		if s.Streams[i].Clients > 0 {
			closed = append(closed, i)
		}
	}
	finished := make([]float64, len(s.Streams))
	ends := 0.0
	for _, one := range results {
		ends += max(float64(one.End)/1e9, s.length().Seconds()) / n
		r.Requests += float64(one.sum(0, len(one.cells), nil).attempts)
		r.MostWaiting = max(r.MostWaiting, float64(one.MostWaiting))
		r.MostRunning = max(r.MostRunning, float64(one.MostRunning))
		r.Logins += float64(one.Logins) / n
		r.FailedLogins += float64(one.FailedLogins) / n
		r.Moves += float64(one.Moves) / n
		r.FalseRefusals += float64(one.FalseRefusals) / n
		r.FalseOracle += float64(one.FalseOracle) / n
		end := one.End
		for i, at := range one.finished {
			finished[i] += float64(at) / 1e9 / n
			if s.Streams[i].Queries > 0 && at > 0 {
				end = min(end, at)
			}
		}
		if len(closed) > 1 {
			r.Jain += one.jain(closed, 1e9, end/1e9*1e9) / n
		}
	}
	if over := ends * float64(s.Plan.Slots); over > 0 {
		r.Used = r.All.Mean.Busy / over
	}
	for i, at := range finished {
		if s.Streams[i].Queries > 0 {
			r.Finished = append(r.Finished, Done{s.Streams[i].Name, at})
		}
	}
}
