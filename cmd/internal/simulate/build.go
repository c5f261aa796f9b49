package simulate

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/pool"
)

// Input is a scenario as it is written down.
type Input struct {
	Name    string
	Config  *config.Config
	Facts   config.Facts // of Postgres, for budget = "auto"
	Slots   int          // instead of the configuration's; 0 = these
	Load    string       // as for [ParseLoad]
	Streams []string
	Events  []string // as for [ParseEvent]

	// Policy is, when not empty, the policy of all workloads.
	Policy string

	Database Database // its Events come from above
	Window   time.Duration
	Even     bool
	Oracle   bool
}

// builder turns an Input into a Scenario.
type builder struct {
	in       *Input
	s        *Scenario
	upstream int // -1 = not known yet
	keys     map[[2]string]admission.Key
	roles    map[string]uint32
	tenants  map[string]uint32 // by role and name
	next     map[string]uint32 // tenant, by role
}

// Build makes a scenario of what is written down. Errors say what is wrong and what to write.
func Build(in Input) (*Scenario, error) {
	b := &builder{
		in: &in, upstream: -1,
		s:    &Scenario{Name: in.Name, Database: in.Database, Window: in.Window, Even: in.Even, Oracle: in.Oracle},
		keys: map[[2]string]admission.Key{}, roles: map[string]uint32{}, tenants: map[string]uint32{}, next: map[string]uint32{},
	}
	var err error
	if b.s.Load, err = ParseLoad(in.Load); err != nil {
		return nil, err
	}
	for _, text := range in.Events {
		e, err := ParseEvent(text)
		if err != nil {
			return nil, err
		}
		b.s.Database.Events = append(b.s.Database.Events, e)
	}
	b.workloads()
	b.rules()
	for i, text := range in.Streams {
		if err := b.stream(text); err != nil {
			return nil, fmt.Errorf("stream %d, %s: %w", i+1, text, err)
		}
	}
	if len(b.s.Streams) == 0 {
		return nil, fmt.Errorf("there are no streams: who sends what? Write --stream 'app_name=web,service=50ms,patience=1s'")
	}
	b.share()
	return b.s, b.limits()
}

// workloads makes the gate's plan.
func (b *builder) workloads() {
	for i := range b.in.Config.Workloads {
		w := &b.in.Config.Workloads[i]
		b.s.Plan.Workloads = append(b.s.Plan.Workloads, planOf(w))
		b.s.Workloads = append(b.s.Workloads, workloadOf(w))
	}
}

// planOf is what the gate is told of a workload.
func planOf(w *config.Workload) admission.Workload {
	p := admission.Workload{
		MaxWait: int64(w.MaxWait.Std()), NoServerWait: max(1, int64(w.NoServerWait.Std())),
		SessionWait: max(1, int64(w.SessionWait.Std())), Patient: w.Patient,
		Share: w.Part.Fraction(), Lendable: w.Lendable.Fraction(), Borrow: w.Borrow.Fraction(),
		Policy: w.Queue, Mode: w.Mode,
	}
	for class, wait := range w.ClassWait {
		p.ClassWait[class] = int64(wait.Std())
	}
	if !w.MaxWaiting.IsAuto() {
		p.MaxWaiting = int(w.MaxWaiting)
	}
	return p
}

// workloadOf is what a run has to know beside that.
func workloadOf(w *config.Workload) Workload {
	return Workload{
		Name: w.Name, CancelAbandoned: w.OnDisconnect == config.Cancel, Deadline: w.Deadline.Std(), Class: w.Class,
	}
}

// stream adds one.
func (b *builder) stream(text string) error {
	p, err := parseStream(text)
	if err != nil {
		return err
	}
	c := b.in.Config
	if p.database == "" {
		p.database = c.Databases[0].Name
		if p.database == "*" {
			p.database = "postgres"
		}
	}
	if err := b.route(p.database); err != nil {
		return err
	}
	p.role = cmp.Or(p.role, "app")
	index := c.WorkloadOf(p.database, p.role, p.application, netip.Addr{})
	if c.Workloads[index].PoolMode == config.Session {
		return fmt.Errorf("it belongs to workload %s, which is in session mode: only transactions are simulated", c.Workloads[index].Name)
	}
	p.Workload = uint16(index)
	p.Class = b.s.Workloads[index].Class
	if p.class != "" {
		var known bool
		if p.Class, known = admission.ParseClass(p.class); !known {
			return fmt.Errorf("class: %q is none of %s", p.class, strings.Join(classNames(), ", "))
		}
	}
	p.Class = max(p.Class, c.RoleOf(p.role).MaxClass)
	b.number(p)
	b.rates(p)
	if p.Name == "" {
		p.Name = fmt.Sprintf("%d", len(b.s.Streams)+1)
	}
	if slices.ContainsFunc(b.s.Streams, func(s Stream) bool { return s.Name == p.Name }) {
		p.Name = fmt.Sprintf("%s %d", p.Name, len(b.s.Streams)+1)
	}
	b.s.Streams = append(b.s.Streams, p.Stream)
	return nil
}

func classNames() (names []string) {
	for i := range admission.Classes {
		names = append(names, admission.ClassAt(i).String())
	}
	return names
}

// route notes which upstream is meant: there is one gate for each, and one is simulated.
func (b *builder) route(database string) error {
	at, _, ok := b.in.Config.Route(database)
	switch {
	case !ok:
		return fmt.Errorf("database: the configuration has no %q", database)
	case b.upstream >= 0 && b.upstream != at:
		return fmt.Errorf("database %s is on upstream %s, and others are on %s: simulate one at a time",
			database, b.in.Config.Upstreams[at].Name, b.in.Config.Upstreams[b.upstream].Name)
	}
	b.upstream = at
	return nil
}

// number gives key, role and tenants their numbers.
func (b *builder) number(p *spec) {
	role := p.role
	server := [2]string{p.database, role}
	for i := range b.in.Config.Databases {
		if d := &b.in.Config.Databases[i]; d.Name == p.database && d.User != "" {
			server[1] = d.User
		}
	}
	key, known := b.keys[server]
	if !known {
		key = admission.Key(len(b.keys))
		b.keys[server] = key
	}
	p.Key = key
	if _, known := b.roles[role]; !known {
		b.roles[role] = uint32(len(b.roles))
	}
	p.Role = b.roles[role]
	if p.Tenants > 1 {
		p.FirstTenant = b.next[role]
		b.next[role] += uint32(p.Tenants)
		return
	}
	name := role + "\x00" + cmp.Or(p.tenant, p.application)
	if _, known := b.tenants[name]; !known {
		b.tenants[name] = b.next[role]
		b.next[role]++
	}
	p.FirstTenant = b.tenants[name]
}

// rules are the rates, as the limiter wants them. Those that do not act stay without effect.
func (b *builder) rules() {
	for i := range b.in.Config.Rates {
		r := &b.in.Config.Rates[i]
		b.s.Rates = append(b.s.Rates, quota.Rule{
			Name: r.Name, Keys: string(r.Per), ServerTime: r.ServerTime, PerSecond: r.PerSecond, Burst: r.Burst,
		})
	}
}

// rates finds out which of them count for the tenants of a stream.
func (b *builder) rates(p *spec) {
	c := b.in.Config
	list := c.RatesOf(p.database, p.role, p.application, netip.Addr{})
	if len(list) == 0 {
		return
	}
	p.Rates = make([][]RateKey, p.Tenants)
	for i := range p.Tenants {
		name := cmp.Or(p.tenant, p.application)
		if p.Tenants > 1 {
			name = fmt.Sprintf("%s-%d", p.application, i+1)
		}
		found := map[config.RatePer]bool{}
		for _, at := range list {
			r := &c.Rates[at]
			if found[r.Per] || !c.RateHasTenant(at, name) {
				continue
			}
			found[r.Per] = true
			if r.Mode != admission.Enforce {
				continue
			}
			key := RateKey{Rule: at, A: p.role, B: name}
			switch r.Per {
			case config.PerRole:
				key.B = ""
			case config.PerClient:
				key.A, key.B = "stream", fmt.Sprint(len(b.s.Streams))
			}
			p.Rates[i] = append(p.Rates[i], key)
		}
	}
}

// share makes the shares add up to 1, if no one said a part of the load.
func (b *builder) share() {
	sum := 0.0
	for i := range b.s.Streams {
		sum += b.s.Streams[i].Share
	}
	if sum <= 1 {
		return
	}
	for i := range b.s.Streams {
		b.s.Streams[i].Share /= sum
	}
}

// limits takes slots and servers from the upstream, and the policy from the input.
func (b *builder) limits() error {
	c, u := b.in.Config, &b.in.Config.Upstreams[b.upstream]
	facts := b.in.Facts
	if facts == (config.Facts{}) {
		facts = config.Facts{MaxConnections: math.MaxInt32, RoleLimit: -1}
		if u.Budget.IsAuto() {
			facts = config.Facts{MaxConnections: 100, SuperuserReserved: 3, RoleLimit: -1}
		}
	}
	budget := c.Budget(b.upstream, facts)
	b.s.Plan.Slots = budget.Slots
	b.s.Plan.Connections = budget.Connections - budget.Reserve
	places := budget.Connections - budget.Reserve
	if b.in.Slots > 0 {
		b.s.Plan.Slots = b.in.Slots
		places = max(places, b.in.Slots)
	}
	b.s.Pool = pool.Options{
		Budget: places, ConnectParallel: u.ConnectParallel, ConnectRate: float64(budget.ConnectRate),
	}
	if !u.ServerLifetime.IsNone() {
		b.s.Pool.Lifetime = int64(u.ServerLifetime.Std())
	}
	if !u.ServerIdleTimeout.IsNone() {
		b.s.Pool.IdleTimeout = int64(u.ServerIdleTimeout.Std())
	}
	if b.in.Policy == "" {
		return nil
	}
	policy, known := admission.ParsePolicy(b.in.Policy)
	if !known {
		return fmt.Errorf("%q is not a policy: there are %s", b.in.Policy, strings.Join(PolicyNames(), ", "))
	}
	for i := range b.s.Plan.Workloads {
		b.s.Plan.Workloads[i].Policy = policy
	}
	return nil
}

// PolicyNames are all policies, the default first.
func PolicyNames() (names []string) {
	for i := range admission.Policies {
		names = append(names, admission.Policy(i).String())
	}
	return names
}
