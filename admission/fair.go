package admission

// Start-time fair queuing (Goyal, Vin, Cheng 1996) in server-time, between the roles of a
// rank and between the tenants of each: who is served pays with the time that it is
// expected to hold its slot, and the difference when it has ended. Who has paid least is
// next. Who comes back after a while starts with those who are served now, and saves nothing.

// role is what a rank knows of a role that waits, runs, or has paid more than others.
type role struct {
	rank    *rank
	id      uint32
	vt      int64 // what it has paid
	vtime   int64 // the virtual start of its tenant served last
	waiting int
	running int
	active  int    // tenants with waiters
	first   uint64 // the waiter with whom its queue began
	fresh   int    // waiters that may be displaced
	work    int64
	ready   heap[*flow] // whose keys may have servers, by what their tenants have paid
	parked  heap[*flow] // whose keys have none
	asleep  heap[*tenant]
	fullest heap[*tenant] // by how many of them may be displaced

	inReady, inParked, inAsleep, inFullest int32 // places in the rank's heaps

	next *role // in the free list
}

// tenant is the same of a tenant of a role.
type tenant struct {
	role    *role
	id      uint32
	vt      int64
	waiting int
	running int
	fresh   int // waiters that may be displaced
	work    int64
	subs    *sub
	nsubs   int

	served           int64
	granted, refused uint64

	inAsleep  int32
	inFullest int32
	inList    int32
	next      *tenant // in the free list
}

// sub is a tenant's waiters in one flow, oldest first.
type sub struct {
	flow       *flow
	tenant     *tenant
	first      *Waiter
	last       *Waiter
	seen       *Waiter // nobody before it can be displaced; nil: not known
	n          int
	vt         int64         // what its tenant had paid when it was last put to its place
	begun      heap[*Waiter] // where the flow is kept: those whose work began first come first
	inFlow     int32
	next, prev *sub // of the tenant; next also in the free list
}

// mostMoved is how many subs are brought to their places at once when what a tenant has paid
// changes. Where it waits for more keys than that, they are moved when they come up, a few at a
// time: a grant costs no more with ten thousand databases. It may be ahead of the other tenants
// of its role then, once, by a grant for every few of its keys.
const (
	mostMoved = 8
	mostFixed = 2
)

// mostSpare is of how many waiters the room is kept in a sub that is not used.
const mostSpare = 64

type roleName struct {
	rank *rank
	id   uint32
}

type tenantName struct {
	role *role
	id   uint32
}

// book finds roles and tenants, and keeps those that are not used for the next ones.
type book struct {
	roles   map[roleName]*role
	tenants map[tenantName]*tenant

	most int       // of each
	list []*tenant // in no order, to be looked at piece by piece

	freeRoles   *role
	freeTenants *tenant
	freeSubs    *sub
}

// The bounds of what is remembered.
const (
	// How many roles and tenants are told apart at once, over all ranks; beyond it, new ones
	// share a few.
	mostAccounts   = 20_000
	sharedAccounts = 128
	// mostAsleep is how many of those who neither wait nor run are remembered, by a rank of
	// its roles and by a role of its tenants. Who has paid least of them is where newcomers
	// start, if there are more: or names that are never used twice would always be first.
	mostAsleep = 100
)

func (b *book) open() {
	b.roles, b.tenants = make(map[roleName]*role), make(map[tenantName]*tenant)
	b.most = mostAccounts
}

// role returns the role's account, new if it is not known.
func (b *book) role(r *rank, id uint32) *role {
	o := b.roles[roleName{r, id}]
	if o == nil && len(b.roles) >= b.most {
		id %= sharedAccounts
		o = b.roles[roleName{r, id}]
	}
	if o != nil {
		return o
	}
	o = b.freeRoles
	if o == nil {
		o = newRole()
	} else {
		b.freeRoles = o.next
	}
	o.clear()
	o.rank, o.id, o.vt = r, id, r.vtime
	b.roles[roleName{r, id}] = o
	return o
}

func newRole() *role {
	return &role{
		ready:   heap[*flow]{less: (*flow).fairer, place: func(f *flow) *int32 { return &f.inLine }},
		parked:  heap[*flow]{less: (*flow).fairer, place: func(f *flow) *int32 { return &f.inDry }},
		asleep:  heap[*tenant]{less: func(a, c *tenant) bool { return a.vt < c.vt }, place: func(t *tenant) *int32 { return &t.inAsleep }},
		fullest: heap[*tenant]{less: (*tenant).fuller, place: func(t *tenant) *int32 { return &t.inFullest }},
	}
}

// clear makes the role, of which nobody is left, as good as new.
func (o *role) clear() {
	*o = role{ready: o.ready, parked: o.parked, asleep: o.asleep, fullest: o.fullest}
}

// tenant returns the account of a tenant of o, new if it is not known.
func (b *book) tenant(o *role, id uint32) *tenant {
	t := b.tenants[tenantName{o, id}]
	if t == nil && len(b.tenants) >= b.most {
		id %= sharedAccounts
		t = b.tenants[tenantName{o, id}]
	}
	if t != nil {
		return t
	}
	t = b.freeTenants
	if t == nil {
		t = new(tenant)
	} else {
		b.freeTenants = t.next
	}
	*t = tenant{role: o, id: id, vt: o.vtime}
	b.tenants[tenantName{o, id}] = t
	t.inList = int32(len(b.list))
	b.list = append(b.list, t)
	return t
}

// refused notes that w was refused at the door, if its tenant is known.
func (b *book) refused(r *rank, w *Waiter) {
	if o := b.roles[roleName{r, w.Role}]; o != nil {
		if t := b.tenants[tenantName{o, w.Tenant}]; t != nil {
			t.refused++
		}
	}
}

// settle puts the account to those that sleep, or forgets it, or wakes it.
func (b *book) settle(t *tenant) {
	o := t.role
	switch {
	case t.waiting > 0 || t.running > 0:
		o.asleep.put(t, false)
	case t.vt <= o.vtime || o.rank.n == 0:
		b.forgetTenant(t)
	default:
		o.asleep.put(t, true)
		if len(o.asleep.items) > mostAsleep {
			o.vtime = max(o.vtime, o.asleep.items[0].vt)
			b.wakeTenants(o)
		}
	}
	b.settleRole(o)
}

func (b *book) settleRole(o *role) {
	r := o.rank
	switch {
	case o.waiting > 0 || o.running > 0:
		r.asleep.put(o, false)
	case o.vt <= r.vtime || r.n == 0:
		b.forget(o)
	default:
		r.asleep.put(o, true)
		if len(r.asleep.items) > mostAsleep {
			r.vtime = max(r.vtime, r.asleep.items[0].vt)
			b.wakeRoles(r)
		}
	}
}

// forget drops a role that nobody of waits or runs, and its tenants, which sleep.
func (b *book) forget(o *role) {
	o.rank.asleep.put(o, false)
	for t, ok := o.asleep.top(); ok; t, ok = o.asleep.top() {
		b.forgetTenant(t)
	}
	delete(b.roles, roleName{o.rank, o.id})
	o.clear()
	o.next, b.freeRoles = b.freeRoles, o
}

func (b *book) forgetTenant(t *tenant) {
	t.role.asleep.put(t, false)
	delete(b.tenants, tenantName{t.role, t.id})
	last := len(b.list) - 1
	b.list[t.inList] = b.list[last]
	b.list[t.inList].inList = t.inList
	b.list[last] = nil
	b.list = b.list[:last]
	*t = tenant{next: b.freeTenants}
	b.freeTenants = t
}

// wakeTenants forgets those who have not paid more than who is served now.
func (b *book) wakeTenants(o *role) {
	for t, ok := o.asleep.top(); ok && t.vt <= o.vtime; t, ok = o.asleep.top() {
		b.forgetTenant(t)
	}
}

func (b *book) wakeRoles(r *rank) {
	for p, ok := r.asleep.top(); ok && p.vt <= r.vtime; p, ok = r.asleep.top() {
		b.forget(p)
	}
}

// sleepers forgets what a rank knows of those who do not run: nobody waits any more, so
// that nobody has a claim to be served before them.
func (b *book) sleepers(r *rank) {
	for o, ok := r.asleep.top(); ok; o, ok = r.asleep.top() {
		b.forget(o)
	}
}

// join puts w, which is in f, to its tenant's. A flow stays with the account of its role that
// it has begun with.
func (b *book) join(f *flow, w *Waiter) {
	r := f.rank
	if f.role == nil {
		f.role = b.role(r, w.Role)
	}
	o := f.role
	t := b.tenant(o, w.Tenant)
	if o.waiting == 0 {
		o.vt, o.first = max(o.vt, r.vtime), w.seq
		r.active++
	}
	if t.waiting == 0 {
		t.vt = max(t.vt, o.vtime)
		o.active++
	}
	o.waiting++
	t.waiting++
	b.settle(t)
	t.count(w, 1)
	s := f.subOf(t)
	if s == nil {
		s = b.sub(f, t)
	}
	s.insert(w)
	s.place()
}

// subOf is the tenant's sub in the flow; nil if there is none. A tenant with many keys and a
// key with many tenants are both possible, but not often together: it looks on both sides.
func (f *flow) subOf(t *tenant) *sub {
	s := t.subs
	for _, o := range f.subs.items {
		switch {
		case o.tenant == t:
			return o
		case s == nil || s.flow == f:
			return s
		}
		s = s.next
	}
	return nil
}

// place brings the sub to where it belongs in its flow.
func (s *sub) place() {
	s.vt = s.tenant.vt
	s.flow.subs.put(s, s.n > 0)
}

// count adds n times w to what the tenant's waiters have before them and may lose, unless it
// waits only because the guard is not enforced.
func (t *tenant) count(w *Waiter, n int) {
	if w.would {
		return
	}
	o, work := t.role, int64(n)*w.expected
	o.rank.work += work
	o.work += work
	t.work += work
	if mayLose(w) {
		t.mayLose(n)
	}
}

// mayLose counts n more of the tenant's waiters that may be displaced.
func (t *tenant) mayLose(n int) {
	o := t.role
	r := o.rank
	r.fresh += n
	o.fresh += n
	t.fresh += n
	o.fullest.put(t, t.fresh > 0)
	r.fullest.put(o, o.fresh > 0)
}

// leave takes w, which is still in its flow, from its tenant's.
func (b *book) leave(w *Waiter) {
	s := w.sub
	f, t := s.flow, s.tenant
	r, o := f.rank, t.role
	s.remove(w)
	o.waiting--
	t.waiting--
	if o.waiting == 0 {
		r.active--
	}
	if t.waiting == 0 {
		o.active--
	}
	t.count(w, -1)
	s.place()
	if s.n == 0 {
		b.drop(s)
	}
	if len(f.subs.items) == 0 {
		f.role = nil
	}
	b.settle(t)
}

// pay charges w's tenant for the slot that w is granted. If w waits it still stands in its flow.
func (b *book) pay(r *rank, w *Waiter) (t *tenant) {
	if w.sub != nil {
		t = w.sub.tenant
	} else {
		t = b.tenant(b.role(r, w.Role), w.Tenant)
	}
	o := t.role
	if o.waiting == 0 {
		o.vt = max(o.vt, r.vtime)
	}
	if t.waiting == 0 {
		t.vt = max(t.vt, o.vtime)
	}
	r.vtime, o.vtime = max(r.vtime, o.vt), max(o.vtime, t.vt)
	t.running++
	o.running++
	t.granted++
	b.charge(t, w.expected)
	b.settle(t)
	b.wakeTenants(o)
	b.wakeRoles(r)
	return t
}

// charge adds ns to what a tenant and its role have paid, which moves them.
func (b *book) charge(t *tenant, ns int64) {
	o := t.role
	t.vt += ns
	o.vt += ns
	t.served += ns
	if t.nsubs <= mostMoved {
		for s := t.subs; s != nil; s = s.next {
			s.place()
			s.flow.place()
		}
	}
	o.place()
	if t.fresh > 0 {
		o.fullest.put(t, true)
	}
	if o.fresh > 0 {
		o.rank.fullest.put(o, true)
	}
}

// place brings the role to where it belongs in its rank.
func (o *role) place() {
	o.rank.readyRoles.put(o, len(o.ready.items) > 0)
	o.rank.parkedRoles.put(o, len(o.parked.items) > 0)
}

// paid ends a ticket that was charged with expected ns and has held its slot for held ns.
func (b *book) paid(t *tenant, expected, held int64) {
	t.running--
	t.role.running--
	b.charge(t, held-expected)
	b.settle(t)
}

// fairer is the order of Guard between the flows of a rank: roles, then tenants, then, while
// some are refused, who goes on with what was begun, what was begun first before the others,
// then the older. As long as nobody is refused all that was begun comes to its end; who never
// stops would keep the others out.
func (f *flow) fairer(o *flow) bool {
	switch {
	case f.role != o.role:
		return f.role.cheaper(o.role)
	case f.tenantVT != o.tenantVT:
		return f.tenantVT < o.tenantVT
	case !f.rank.on:
		return f.first.seq < o.first.seq
	case f.kept != o.kept:
		return f.kept
	case f.kept:
		return f.eldest.eldest(o.eldest)
	}
	return f.last.seq > o.last.seq
}

// cheaper is the order of the roles of a rank.
func (o *role) cheaper(p *role) bool {
	if o.vt != p.vt {
		return o.vt < p.vt
	}
	return o.first < p.first
}

// top is the sub of the flow whose tenant is next.
func (f *flow) top() *sub {
	for range mostFixed {
		s := f.subs.items[0]
		if s.vt == s.tenant.vt {
			break
		}
		s.place()
	}
	return f.subs.items[0]
}

// fresh reports whether the flow is where it belongs by what has been paid since it was put
// there.
func (f *flow) fresh() bool { return f.role == nil || f.tenantVT == f.top().tenant.vt }

// fuller is the order of those who lose a waiter to make room: who has most.
func (t *tenant) fuller(o *tenant) bool {
	if t.fresh != o.fresh {
		return t.fresh > o.fresh
	}
	return t.vt > o.vt
}

func (o *role) fuller(p *role) bool {
	if o.fresh != p.fresh {
		return o.fresh > p.fresh
	}
	return o.vt > p.vt
}

// sub returns a new one.
func (b *book) sub(f *flow, t *tenant) *sub {
	s := b.freeSubs
	if s == nil {
		s = &sub{begun: heap[*Waiter]{less: (*Waiter).eldest, place: func(w *Waiter) *int32 { return &w.inBegun }}}
	} else {
		b.freeSubs = s.next
	}
	*s = sub{flow: f, tenant: t, next: t.subs, begun: s.begun}
	if s.next != nil {
		s.next.prev = s
	}
	t.subs = s
	t.nsubs++
	return s
}

// drop forgets one in which nobody is left.
func (b *book) drop(s *sub) {
	s.tenant.nsubs--
	if s.prev == nil {
		s.tenant.subs = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	if cap(s.begun.items) > mostSpare {
		s.begun.items = nil
	}
	*s = sub{next: b.freeSubs, begun: s.begun}
	b.freeSubs = s
}

// cheaper is the order of the tenants of a flow.
func (s *sub) cheaper(o *sub) bool {
	if s.vt != o.vt {
		return s.vt < o.vt
	}
	return s.first.seq < o.first.seq
}

// head is who goes next of a tenant's in a flow whose rank refuses some, or does not.
func (s *sub) head(refuses bool) *Waiter {
	switch {
	case !refuses:
		return s.first
	case s.flow.kept:
		return s.begun.items[0]
	}
	return s.last
}

// eldest is the order of those who go on with what was begun.
func (w *Waiter) eldest(o *Waiter) bool {
	if w.began != o.began {
		return w.began < o.began
	}
	return w.seq < o.seq
}

// loser is its oldest who may be displaced; nil if there is none.
func (s *sub) loser() *Waiter {
	w := s.seen
	if w == nil {
		w = s.first
	}
	for w != nil && !mayLose(w) {
		w = w.places[ofSub].next
	}
	s.seen = w
	if w == nil {
		s.seen = s.last
	}
	return w
}

func (s *sub) insert(w *Waiter) {
	w.sub = s
	insertByAge(&s.first, &s.last, w, ofSub)
	s.begun.put(w, s.flow.kept)
	if s.last != w {
		s.seen = nil
	}
	s.n++
}

func (s *sub) remove(w *Waiter) {
	if s.seen == w {
		s.seen = w.places[ofSub].next
	}
	takeOut(&s.first, &s.last, w, ofSub)
	s.begun.put(w, false)
	w.sub = nil
	s.n--
}
