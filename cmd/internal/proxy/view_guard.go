package proxy

import (
	"cmp"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// workloads adds a row for every workload that the configuration has.
func (v *view) workloads(f *upstreamFacts) {
	first := len(v.out.Workloads)
	rows := make(map[string]int, len(f.workloads))
	for i := range f.workloads {
		w, st := &f.workloads[i], f.stats(i)
		f.state.Held += st.Sessions
		rows[w.Name] = first + i
		v.out.Workloads = append(v.out.Workloads, state.Workload{
			Name: w.Name, Upstream: f.up.name, Mode: w.Mode.String(), Share: w.Share, Part: w.Share * float64(f.u.Slots),
			Running: st.Running, Held: st.Sessions, Pinned: st.Pinned, MaxPinned: st.MaxPinned, Pins: st.Pins, Lent: float64(st.Lent), Borrowed: float64(st.Borrowed), Waiting: st.Waiting,
			MaxWaiting: st.MaxWaiting, MaxWait: w.MaxWait, Oldest: f.since(st.Waiting > 0, st.Oldest), DrainRate: st.DrainRate,
			Policy: w.Queue.String(), Guard: w.Guard.String(), FalseRefusals: st.FalseRefusals,
			Granted:   st.Granted[admission.Transaction] + st.Granted[admission.Slot],
			Withdrawn: st.Withdrawn, Refused: st.Refused, GrantWaits: st.GrantWaits, RefusalWaits: st.RefusalWaits,
		})
	}
	goodput := make([][admission.Classes]uint64, len(f.workloads))
	for i := range f.groups {
		g := &f.groups[i]
		if at, ok := rows[g.Workload.Name]; ok {
			r := &v.out.Workloads[at]
			r.Clients += g.Clients
			r.Traffic.Add(g)
			for c, n := range g.Traffic.Goodput {
				goodput[at-first][c] += n
			}
		}
	}
	for i := range f.workloads {
		v.out.Workloads[first+i].Classes = f.classes(i, &goodput[i])
	}
}

// classes are those of a workload that were seen.
func (f *upstreamFacts) classes(workload int, goodput *[admission.Classes]uint64) (list []state.Class) {
	w, st := &f.workloads[workload], f.stats(workload)
	for i := range st.Classes {
		c := &st.Classes[i]
		s := state.Class{
			Class: admission.ClassAt(i), MaxWait: cmp.Or(w.ClassWait[i], w.MaxWait),
			Waiting: c.Waiting, Standing: c.Standing, Oldest: f.since(c.Waiting > 0, c.Oldest),
			Granted: c.Granted, Goodput: goodput[i], Refused: c.Refused, Would: c.Would,
		}
		if s.Seen() {
			s.GrantWaits, s.RefusalWaits = c.GrantWaits, c.RefusalWaits
			list = append(list, s)
		}
	}
	return list
}

// stats is the gate's state of a workload; the zero one if it has not heard of it.
func (f *upstreamFacts) stats(workload int) *admission.WorkloadStats {
	if at := f.index[workload]; at >= 0 && at < len(f.loads) {
		return &f.loads[at]
	}
	return &admission.WorkloadStats{}
}

// since is how long ago something was when the gate was last asked; 0 if it was not.
func (f *upstreamFacts) since(was bool, at int64) time.Duration {
	if !was {
		return 0
	}
	return time.Duration(f.now - at)
}

// promotion is the recent work of a role over all upstreams.
type promotion struct{ work, above time.Duration }

// promoted adds to the roles what they have asked for.
func (v *view) promoted(f *upstreamFacts) {
	for i := range f.roles {
		s := &f.roles[i]
		r, w := v.role(s.Role), v.work[s.Role]
		w.work, w.above = w.work+s.Work, w.above+s.Above
		v.work[s.Role] = w
		if w.work > 0 {
			r.Promoted = min(float64(w.above)/float64(w.work), 1)
		}
		r.Demoted += s.Demoted
		r.Capped += s.Capped
		for t, n := range s.Stopped {
			r.Stopped[t] += n
		}
	}
}
