package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

const (
	sampleEvery = time.Second
	sampleKeep  = 300 // samples: five minutes
	// watchTime is for how long the sampler goes on after the last look: an idle pgweir that
	// nobody looks at should not wake up every second.
	watchTime = 5 * time.Minute
	// recentSamples is how far back the recent refusals go.
	recentSamples = 60
)

// sample is what happened in about one second.
type sample struct {
	At       int64              `json:"t"` // ms since 1970, its end
	Served   float64            `json:"served"`
	Refused  float64            `json:"refused"`
	Useful   float64            `json:"useful"`            // answered while it was of use, per second
	Wasted   float64            `json:"wasted"`            // slots whose work was for nobody
	Reasons  map[string]float64 `json:"reasons,omitempty"` // refused per second
	P50      *float64           `json:"p50"`               // s, waits of the served; null if there were none
	P99      *float64           `json:"p99"`
	Waiting  int                `json:"waiting"`
	Running  int                `json:"running"`
	Sent     float64            `json:"sent"` // bytes per second to clients
	Received float64            `json:"received"`

	refusals []state.RefusalCount // totals at its end
}

// history is the last five minutes, sampled while somebody looks.
type history struct {
	guard   Guard
	version string
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of the sampler; ended by stop
	running bool            // a sampler is at work
	looked  time.Time       // at the last poll
	last    *state.Snapshot // that the next sample is compared with
	tenants tenants         // likewise
	samples []sample        // oldest first, at most sampleKeep
	view    *view           // of the last sample
	failed  error           // of the last attempt to take a sample
	since   time.Time       // since when it fails
}

func newHistory(g Guard, version string) *history {
	ctx, cancel := context.WithCancel(context.Background())
	return &history{guard: g, version: version, ctx: ctx, cancel: cancel}
}

// stop ends the sampler for good.
func (h *history) stop() {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.work.Wait()
}

// look returns the view and the samples after the time since, in ms, and keeps the sampler
// going. The first look after a pause starts it, from a clean page.
func (h *history) look(since int64) (*view, []sample) {
	h.mu.Lock()
	first := !h.running && h.ctx.Err() == nil
	h.looked = time.Now()
	if first {
		h.running, h.last, h.tenants, h.samples, h.view, h.failed = true, nil, tenants{}, nil, nil, nil
		// Under the lock: others who come meanwhile wait for the first view.
		h.takeLocked(h.ctx)
		h.work.Go(h.run)
	}
	defer h.mu.Unlock()
	from, found := slices.BinarySearchFunc(h.samples, since, func(s sample, t int64) int { return cmp.Compare(s.At, t) })
	if found {
		from++
	}
	return h.viewLocked(), append([]sample{}, h.samples[from:]...)
}

// run samples until nobody has looked for long.
func (h *history) run() {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		if !h.sample() {
			return
		}
	}
}

// sample takes one and reports whether to go on.
func (h *history) sample() bool {
	ctx, cancel := context.WithTimeout(h.ctx, sampleEvery)
	defer cancel()
	snap, tenants, err := h.take(ctx) // not under the lock: it may take its second
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(snap, tenants, err)
	if time.Since(h.looked) < watchTime {
		return true
	}
	h.running = false
	return false
}

func (h *history) takeLocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	h.addLocked(h.take(ctx))
}

// take asks for what a sample is made of.
func (h *history) take(ctx context.Context) (*state.Snapshot, []state.Tenant, error) {
	snap, err := h.guard.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := h.guard.Tenants(ctx)
	return snap, list, err
}

// addLocked takes in a snapshot, or that there is none.
func (h *history) addLocked(snap *state.Snapshot, list []state.Tenant, err error) {
	if err != nil {
		if h.failed == nil {
			h.since = time.Now()
		}
		h.failed = err
		return
	}
	h.failed = nil
	rates := make(map[workloadKey]rate)
	if h.last != nil {
		s := compare(h.last, snap, rates)
		if len(h.samples) == sampleKeep {
			h.samples = slices.Delete(h.samples, 0, 1)
		}
		h.samples = append(h.samples, s)
		if i := len(h.samples) - 1 - recentSamples; i >= 0 {
			h.samples[i].refusals = nil
		}
	}
	h.last = snap
	h.view = newView(snap, h.version, rates, h.baselineLocked(), h.recentReasonsLocked())
	h.view.Tenants, h.view.MoreTenants = h.tenants.rows(list, snap.Now)
}

// baselineLocked is the oldest list of refusals that is kept: what came since is recent.
func (h *history) baselineLocked() []state.RefusalCount {
	for i := range h.samples {
		if r := h.samples[i].refusals; r != nil {
			return r
		}
	}
	return nil
}

// recentReasonsLocked are the reasons of the samples that are kept, those of the last minute
// first, by how many they were.
func (h *history) recentReasonsLocked() []string {
	weight := make(map[string]float64)
	for i := range h.samples {
		age := len(h.samples) - i
		for reason, n := range h.samples[i].Reasons {
			if age > recentSamples {
				n *= 1e-6
			}
			weight[reason] += n
		}
	}
	list := slices.Sorted(maps.Keys(weight))
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(weight[b], weight[a]) })
	return list
}

// viewLocked is the view to send: the last one, or that the loop does not answer.
func (h *history) viewLocked() *view {
	v := h.view
	if v == nil {
		v = &view{Version: h.version}
	}
	if h.failed == nil {
		return v
	}
	stuck := *v
	stuck.State = stateStuck
	stuck.Messages = []string{fmt.Sprintf("The event loop has not answered for %v: %v", time.Since(h.since).Round(time.Second), h.failed)}
	return &stuck
}

// workloadKey names a workload on an upstream.
type workloadKey struct{ upstream, name string }

// rate is what a workload did in a sample, per second.
type rate struct {
	served, refused float64
	classes         map[admission.Class]classRate
}

// classRate is the same of a class.
type classRate struct{ served, refused, would, useful float64 }

// classRates compares the classes of a workload.
func classRates(before, now *state.Workload, secs float64) map[admission.Class]classRate {
	rates := make(map[admission.Class]classRate, len(now.Classes))
	for i := range now.Classes {
		c := &now.Classes[i]
		was := &state.Class{}
		if at := slices.IndexFunc(before.Classes, func(b state.Class) bool { return b.Class == c.Class }); at >= 0 {
			was = &before.Classes[at]
		}
		rates[c.Class] = classRate{
			served: per(c.Granted, was.Granted, secs), refused: per(allReasons(&c.Refused), allReasons(&was.Refused), secs),
			would: per(allReasons(&c.Would), allReasons(&was.Would), secs), useful: per(c.Goodput, was.Goodput, secs),
		}
	}
	return rates
}

// allReasons is the sum over all reasons.
func allReasons(list *[admission.Reasons]uint64) (n uint64) {
	for _, r := range list {
		n += r
	}
	return n
}

// compare makes the sample between two snapshots and fills in the rates of the workloads. A
// workload that a reload has taken away counts no more, one that it has brought starts at 0.
func compare(before, now *state.Snapshot, rates map[workloadKey]rate) sample {
	secs := max(now.Now.Sub(before.Now).Seconds(), 1e-3)
	s := sample{At: now.Now.UnixMilli(), Reasons: make(map[string]float64), refusals: now.Refusals}
	if s.refusals == nil {
		s.refusals = []state.RefusalCount{}
	}
	old := make(map[workloadKey]*state.Workload, len(before.Workloads))
	for i := range before.Workloads {
		w := &before.Workloads[i]
		old[workloadKey{w.Upstream, w.Name}] = w
	}
	var spread spread
	for i := range now.Workloads {
		w := &now.Workloads[i]
		key := workloadKey{w.Upstream, w.Name}
		was := old[key]
		if was == nil {
			was = &state.Workload{}
		}
		r := rate{served: per(w.Granted, was.Granted, secs), classes: classRates(was, w, secs)}
		for reason := range w.Refused {
			if n := per(w.Refused[reason], was.Refused[reason], secs); n > 0 {
				s.Reasons[admission.Reason(reason).String()] += n
				r.refused += n
			}
		}
		spread.add(&w.GrantWaits, &was.GrantWaits, w.MaxWait)
		rates[key] = r
		s.Served += r.served
		s.Refused += r.refused
		s.Useful += per(w.Traffic.Goodput, was.Traffic.Goodput, secs)
		s.Wasted += max(0, seconds(w.Traffic.WastedTime-was.Traffic.WastedTime)/secs)
		s.Waiting += w.Waiting
		s.Running += w.Running
	}
	for _, c := range now.Turned {
		if n := per(c.N, countOf(before.Turned, c.Label), secs); n > 0 {
			s.Reasons[c.Label] += n
			s.Refused += n
		}
	}
	s.P50, s.P99 = spread.quantile(0.5), spread.quantile(0.99)
	s.Sent = per(now.Traffic.Sent, before.Traffic.Sent, secs)
	s.Received = per(now.Traffic.Received, before.Traffic.Received, secs)
	return s
}

// per is the growth of a total, per second. A total that shrank has started anew.
func per(now, before uint64, secs float64) float64 {
	if now < before {
		before = 0
	}
	return math.Round(float64(now-before)/secs*100) / 100
}

func countOf(list []state.Count, name string) uint64 {
	for _, c := range list {
		if c.Label == name {
			return c.N
		}
	}
	return 0
}
