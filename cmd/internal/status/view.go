package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// The page shows no more rows than these; the others are counted.
const (
	maxWorkloadRows = 40
	maxRefusalRows  = 12
	maxUpstreamRows = 20
	maxTenantRows   = 10
)

// States of the whole, worst last.
const (
	stateServing  = "serving"
	statePaused   = "paused"
	stateDown     = "down"
	stateDraining = "draining"
	stateStuck    = "stuck"
)

// view is what the page shows beside the charts. Times are seconds.
type view struct {
	Version  string   `json:"version"`
	Now      int64    `json:"now"`    // ms since 1970
	Uptime   float64  `json:"uptime"` // s
	State    string   `json:"state"`
	Messages []string `json:"messages"` // why, one per upstream

	Clients   clientsView    `json:"clients"`
	Upstreams []upstreamView `json:"upstreams"`
	Workloads []workloadView `json:"workloads"`
	Refusals  []refusalView  `json:"refusals"`
	Tenants   []tenantView   `json:"tenants"` // those that are refused most, or do most
	Hints     []hintView     `json:"hints"`
	// How many rows were left out.
	MoreUpstreams int `json:"more_upstreams"`
	MoreWorkloads int `json:"more_workloads"`
	MoreRefusals  int `json:"more_refusals"`
	MoreTenants   int `json:"more_tenants"`
}

type clientsView struct {
	Active  int `json:"active"`
	Waiting int `json:"waiting"`
	Idle    int `json:"idle"`
	Login   int `json:"login"`
	Limit   int `json:"limit"`
}

type upstreamView struct {
	Name        string  `json:"name"`
	Host        string  `json:"host"`
	State       string  `json:"state"`
	Budget      int     `json:"budget"`
	BudgetSum   string  `json:"budget_sum"`
	Reserve     int     `json:"reserve"`
	Slots       int     `json:"slots"`
	Running     int     `json:"running"`
	Waiting     int     `json:"waiting"`
	MaxWait     float64 `json:"max_wait"`
	Active      int     `json:"active"`
	Idle        int     `json:"idle"`
	Login       int     `json:"login"`
	Closing     int     `json:"closing"`
	Cancelling  int     `json:"cancelling"`
	Held        int     `json:"held"`
	LastError   string  `json:"last_error,omitempty"`
	LastErrorAt int64   `json:"last_error_at,omitempty"` // ms since 1970
}

type workloadView struct {
	Name       string  `json:"name"`
	Upstream   string  `json:"upstream"`
	Mode       string  `json:"mode"`
	Clients    int     `json:"clients"`
	Part       float64 `json:"part"`
	Running    int     `json:"running"`
	Lent       float64 `json:"lent"`
	Borrowed   float64 `json:"borrowed"`
	Waiting    int     `json:"waiting"`
	MaxWaiting int     `json:"max_waiting"`
	Oldest     float64 `json:"oldest"`
	MaxWait    float64 `json:"max_wait"`
	Served     float64 `json:"served"`  // per second
	Refused    float64 `json:"refused"` // per second
	RefusedAll uint64  `json:"refused_all"`

	Queue    string      `json:"queue"`    // the policy
	Guard    string      `json:"guard"`    // enforce, dry_run, off
	Standing bool        `json:"standing"` // in some class
	InVain   uint64      `json:"in_vain"`  // false refusals since the start
	Classes  []classView `json:"classes"`  // those that were seen, highest first
}

// classView is a class of a workload.
type classView struct {
	Name     string  `json:"name"`
	Waiting  int     `json:"waiting"`
	Oldest   float64 `json:"oldest"`
	MaxWait  float64 `json:"max_wait"`
	Standing bool    `json:"standing"`
	Served   float64 `json:"served"`  // per second
	Refused  float64 `json:"refused"` // per second
	Would    float64 `json:"would"`   // per second: would have been refused
	Useful   float64 `json:"useful"`  // per second: answered while it was of use
}

type refusalView struct {
	Reason      string  `json:"reason"`
	Workload    string  `json:"workload"`
	Database    string  `json:"database"`
	Role        string  `json:"role"`
	Application string  `json:"application"`
	Tenant      string  `json:"tenant"`
	Recent      uint64  `json:"recent"` // in the last minute
	N           uint64  `json:"n"`      // since the start
	Ago         float64 `json:"ago"`
}

type tenantView struct {
	Tenant   string  `json:"tenant"`
	Role     string  `json:"role"`
	Workload string  `json:"workload"`
	Class    string  `json:"class"`
	Waiting  int     `json:"waiting"`
	Running  int     `json:"running"`
	Slots    float64 `json:"slots"`   // used on average
	Served   float64 `json:"served"`  // per second
	Refused  float64 `json:"refused"` // per second
}

type hintView struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// statusJSON is what the page polls: ?since= is the time of the last sample that it has.
func (s *Server) statusJSON(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64) // anything else: all
	v, samples := s.history.look(since)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		*view
		Samples []sample `json:"samples"`
		Keep    int      `json:"keep"`
	}{v, samples, sampleKeep}) // whoever hung up does not want it
}

// newView digests a snapshot. before is the list of refusals that recent ones are counted
// from, reasons are those of the last minutes.
func newView(s *state.Snapshot, version string, rates map[workloadKey]rate, before []state.RefusalCount, reasons []string) *view {
	c := clientStates(s)
	v := &view{
		Version: version, Now: s.Now.UnixMilli(), Uptime: s.Now.Sub(s.Started).Seconds(),
		Clients:   clientsView{c.active, c.waiting, c.idle, s.LoggingIn, s.MaxClients},
		Upstreams: make([]upstreamView, 0, len(s.Upstreams)),
		Hints:     []hintView{},
	}
	v.State, v.Messages = stateOf(s)
	for i := range s.Upstreams {
		v.Upstreams = append(v.Upstreams, newUpstreamView(&s.Upstreams[i]))
	}
	v.Upstreams, v.MoreUpstreams = cut(v.Upstreams, maxUpstreamRows)
	v.Workloads, v.MoreWorkloads = workloadRows(s, rates)
	v.Refusals, v.MoreRefusals = refusalRows(s, before)
	for _, reason := range reasons {
		if text := state.Advice(reason); text != "" {
			v.Hints = append(v.Hints, hintView{reason, text})
		}
	}
	return v
}

// stateOf is the worst state and a sentence for everything that is not as it should be.
func stateOf(s *state.Snapshot) (worst string, messages []string) {
	worst, messages = stateServing, []string{}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		switch {
		case u.Down:
			worst = stateDown
			messages = append(messages, fmt.Sprintf("%s: no server connection is open and the last login failed: %s", u.Name, cmp.Or(u.LastError, "no reason known")))
		case u.Paused:
			if worst == stateServing {
				worst = statePaused
			}
			messages = append(messages, fmt.Sprintf("%s: paused. Clients wait, and their clocks stand still, until RESUME.", u.Name))
		}
	}
	if s.Draining {
		worst = stateDraining
		messages = append(messages, "Shutting down: transactions may end, new clients should go elsewhere.")
	}
	return worst, messages
}

func newUpstreamView(u *state.Upstream) upstreamView {
	v := upstreamView{
		Name: u.Name, Host: u.Host, State: stateServing, Budget: u.Budget, BudgetSum: u.BudgetSum, Reserve: u.Reserve,
		Slots: u.Slots, Running: u.Running, Waiting: u.Waiting, MaxWait: seconds(u.MaxWait),
		Active: u.Active, Idle: u.Idle, Login: u.Dialling, Closing: u.Closing, Cancelling: u.Cancelling, Held: u.Held,
		LastError: u.LastError,
	}
	switch {
	case u.Down:
		v.State = stateDown
	case u.Paused:
		v.State = statePaused
	}
	if !u.LastErrorAt.IsZero() {
		v.LastErrorAt = u.LastErrorAt.UnixMilli()
	}
	return v
}

// workloadRows are the workloads, those with the most trouble and work first if there are
// too many to show, else in the order of the file.
func workloadRows(s *state.Snapshot, rates map[workloadKey]rate) ([]workloadView, int) {
	rows := make([]workloadView, 0, len(s.Workloads))
	for i := range s.Workloads {
		w := &s.Workloads[i]
		r := rates[workloadKey{w.Upstream, w.Name}]
		rows = append(rows, workloadView{
			Name: w.Name, Upstream: w.Upstream, Mode: w.Mode, Clients: w.Clients,
			Part: w.Part, Running: w.Running, Lent: w.Lent, Borrowed: w.Borrowed,
			Waiting: w.Waiting, MaxWaiting: w.MaxWaiting, Oldest: seconds(w.Oldest), MaxWait: seconds(w.MaxWait),
			Served: r.served, Refused: r.refused, RefusedAll: refused(w),
			Queue: w.Policy, Guard: w.Guard, InVain: w.FalseRefusals, Classes: classRows(w, &r),
		})
		rows[i].Standing = slices.ContainsFunc(rows[i].Classes, func(c classView) bool { return c.Standing })
	}
	if len(rows) > maxWorkloadRows {
		slices.SortStableFunc(rows, func(a, b workloadView) int {
			return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Waiting, a.Waiting),
				cmp.Compare(b.Running, a.Running), cmp.Compare(b.Clients, a.Clients))
		})
	}
	return cut(rows, maxWorkloadRows)
}

// classRows are the classes of a workload that were seen.
func classRows(w *state.Workload, r *rate) []classView {
	rows := make([]classView, 0, len(w.Classes))
	for i := range w.Classes {
		c := &w.Classes[i]
		rate := r.classes[c.Class]
		rows = append(rows, classView{
			Name: c.Class.String(), Waiting: c.Waiting, Oldest: seconds(c.Oldest), MaxWait: seconds(c.MaxWait), Standing: c.Standing,
			Served: rate.served, Refused: rate.refused, Would: rate.would, Useful: rate.useful,
		})
	}
	return rows
}

// refusalRows are who was refused most, lately and then ever.
func refusalRows(s *state.Snapshot, before []state.RefusalCount) ([]refusalView, int) {
	type key struct{ reason, workload, database, role, application, tenant string }
	keyOf := func(r *state.RefusalCount) key {
		return key{r.Reason, r.Workload, r.Database, r.Role, r.Application, r.Tenant}
	}
	old := make(map[key]uint64, len(before))
	for i := range before {
		old[keyOf(&before[i])] = before[i].N
	}
	rows := make([]refusalView, 0, len(s.Refusals))
	for i := range s.Refusals {
		r := &s.Refusals[i]
		recent := r.N
		if was := old[keyOf(r)]; was <= recent {
			recent -= was
		}
		if before == nil {
			recent = 0 // nothing to compare with yet
		}
		if r.N == 0 {
			continue
		}
		rows = append(rows, refusalView{
			Reason: r.Reason, Workload: r.Workload, Database: r.Database, Role: r.Role, Application: r.Application, Tenant: r.Tenant,
			Recent: recent, N: r.N, Ago: max(0, s.Now.Sub(r.Last).Seconds()),
		})
	}
	slices.SortStableFunc(rows, func(a, b refusalView) int {
		return cmp.Or(cmp.Compare(b.Recent, a.Recent), cmp.Compare(b.N, a.N))
	})
	return cut(rows, maxRefusalRows)
}

// cut leaves the first n.
func cut[T any](rows []T, n int) (kept []T, more int) {
	if len(rows) <= n {
		return rows, 0
	}
	return rows[:n], len(rows) - n
}
