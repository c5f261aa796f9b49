package session

import (
	"hash/maphash"
	"strconv"
)

const (
	// maxTenants is how many tenants have a number of their own at once.
	maxTenants = 10_000
	// sharedTenants is how many numbers those share who come when there is none left, from 0.
	sharedTenants = 128
	// reseed is how often, in ns, it is drawn anew who shares a number with whom.
	reseed = 300e9
	// forgetAfter is for how long, in ns, nobody has used a tenant's name when it may be
	// forgotten: longer than anybody waits under it, and than what it was charged matters.
	forgetAfter = 120e9
	// forgetTries is how many names are looked at for one that may be forgotten.
	forgetTries = 8
	// maxTenantName bounds the names that are kept, in bytes.
	maxTenantName = 64
)

// names gives roles and their tenants numbers. Roles keep theirs for ever, as they do in the
// groups; the numbers of tenants that nobody uses any more go to others.
type names struct {
	roles  []*roleState // by number
	byRole map[string]*roleState

	tenants  []tenantName // by number, less sharedTenants
	byTenant map[tenantKey]uint32
	limit    int // of tenants
	hand     int
	seed     maphash.Seed
	seededAt int64
	epoch    uint32 // changes with the seed
	shared   uint64 // requests that had to share a number
}

type tenantKey struct {
	role uint32
	name string
}

// tenantName is one tenant that has a number of its own.
type tenantName struct {
	key  tenantKey
	refs int   // sessions that work for it whatever their requests say
	used int64 // when a request was last
}

func newNames() *names {
	return &names{byRole: make(map[string]*roleState), byTenant: make(map[tenantKey]uint32), limit: maxTenants, seed: maphash.MakeSeed()}
}

// role returns what is known of a role, new if it is not known.
func (n *names) role(name string) (r *roleState, fresh bool) {
	if r = n.byRole[name]; r != nil {
		return r, false
	}
	r = &roleState{name: name, number: uint32(len(n.roles))}
	n.roles = append(n.roles, r)
	n.byRole[name] = r
	return r, true
}

// tenant returns the number of a tenant of a role. own tells that no other has the same.
func (n *names) tenant(now int64, role uint32, name []byte) (number uint32, own bool) {
	if len(name) > maxTenantName {
		name = name[:maxTenantName]
	}
	if t, known := n.byTenant[tenantKey{role, string(name)}]; known {
		n.tenants[t].used = now
		return t + sharedTenants, true
	}
	t, found := n.place(now)
	if !found {
		return n.share(now, role, name), false
	}
	k := tenantKey{role, string(name)}
	n.tenants[t] = tenantName{key: k, used: now}
	n.byTenant[k] = t
	return t + sharedTenants, true
}

// place finds a number: a new one, or that of a name that may be forgotten.
func (n *names) place(now int64) (t uint32, found bool) {
	if len(n.tenants) < n.limit {
		n.tenants = append(n.tenants, tenantName{})
		return uint32(len(n.tenants) - 1), true
	}
	for range forgetTries {
		t = uint32(n.hand)
		n.hand = (n.hand + 1) % n.limit
		if old := &n.tenants[t]; old.refs == 0 && now-old.used >= forgetAfter {
			delete(n.byTenant, old.key)
			return t, true
		}
	}
	return 0, false
}

// share returns one of the numbers that many have. Who has it with whom changes now and then,
// so that nobody stays beside a greedy one.
func (n *names) share(now int64, role uint32, name []byte) uint32 {
	n.shared++
	n.renew(now)
	var h maphash.Hash
	h.SetSeed(n.seed)
	_, _ = h.Write([]byte{byte(role), byte(role >> 8), byte(role >> 16), byte(role >> 24)}) // never fails
	_, _ = h.Write(name)
	return uint32(h.Sum64() % sharedTenants)
}

// renew draws a new seed when it is time for it.
func (n *names) renew(now int64) {
	if n.epoch == 0 || now-n.seededAt >= reseed {
		n.seed, n.seededAt = maphash.MakeSeed(), now
		n.epoch++
	}
}

// hold keeps a tenant's name from being forgotten while a session works for it; by is -1
// when it does no more.
func (n *names) hold(number uint32, by int) {
	if number >= sharedTenants {
		n.tenants[number-sharedTenants].refs += by
	}
}

// tenantName returns a tenant's name, or for a shared number one that says so.
func (n *names) tenantName(number uint32) string {
	switch t := number - sharedTenants; {
	case number < sharedTenants:
		return "shared_" + strconv.Itoa(int(number))
	case int(t) < len(n.tenants):
		return n.tenants[t].key.name
	}
	return ""
}

// RoleName returns the name of a role's number at the gate; "" if there is none.
func (co *Core) RoleName(role uint32) string {
	if int(role) < len(co.names.roles) {
		return co.names.roles[role].name
	}
	return ""
}

// TenantName returns the name of a tenant's number at the gate, as long as somebody uses it;
// those of a number that many share are called shared_ and the number.
func (co *Core) TenantName(_, tenant uint32) string { return co.names.tenantName(tenant) }
