package hba

import "net/netip"

// Query is a client that wants to log in.
type Query struct {
	Local          bool       // by a Unix socket
	Addr           netip.Addr // else from where
	TLS            bool
	Database, Role string // never empty, as the client names them
	Replication    bool   // physical replication, of no database

	// Own are this machine's addresses with their networks, for samehost and samenet.
	// nil: it has none.
	Own func() []netip.Prefix
	// MemberOf reports whether the role exists and is a member of a group, directly or
	// not, or the group itself. It is asked only where a rule needs it. nil: nobody is.
	MemberOf func(group string) (bool, error)
}

// Match returns the first rule for a client, or nil. The error is one of MemberOf: then it
// is not known which rule it is.
func (f *File) Match(q *Query) (*Rule, error) {
	addr := q.Addr.Unmap().WithZone("")
	for i := range f.Rules {
		r := &f.Rules[i]
		if !r.way(q) || !r.from.holds(addr, q.Own) {
			continue
		}
		ok, err := r.meansDatabase(q)
		if ok && err == nil {
			ok, err = q.isOneOf(r.roles, q.Role)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			return r, nil
		}
	}
	return nil, nil
}

// way reports whether clients of the rule come as this one does.
func (r *Rule) way(q *Query) bool {
	switch r.kind {
	case localKind:
		return q.Local
	case hostSSL:
		return !q.Local && q.TLS
	case hostNoSSL:
		return !q.Local && !q.TLS
	}
	return !q.Local
}

// meansDatabase reports whether the rule is for the database.
func (r *Rule) meansDatabase(q *Query) (bool, error) {
	for i := range r.databases {
		p := &r.databases[i]
		ok := false
		var err error
		switch {
		case q.Replication || p.is("replication"):
			ok = q.Replication && p.is("replication")
		case p.is("all"):
			ok = true
		case p.is("sameuser"):
			ok = q.Database == q.Role
		case p.is("samerole"), p.is("samegroup"):
			ok, err = q.memberOf(q.Database)
		case p.expr != nil:
			ok = p.expr.MatchString(q.Database)
		default:
			ok = p.word == q.Database
		}
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (q *Query) memberOf(group string) (bool, error) {
	if q.MemberOf == nil {
		return false, nil
	}
	return q.MemberOf(group)
}

// isOneOf reports whether one of the patterns means the role.
func (q *Query) isOneOf(list []pattern, role string) (bool, error) {
	for i := range list {
		if ok, err := q.means(&list[i], role); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (q *Query) means(p *pattern, role string) (bool, error) {
	group, isGroup := p.group()
	switch {
	case isGroup:
		return q.memberOf(group)
	case p.is("all"):
		return true, nil
	case p.expr != nil:
		return p.expr.MatchString(role), nil
	}
	return p.word == role, nil
}
