package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/door"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// method is how one client is to prove who it is.
type method struct {
	login.Method
	mapName    string
	clientCert hba.CertCheck
}

// candidate is a client that wants in.
type candidate struct {
	px   *Proxy
	conn net.Conn
	c    *login.Client
	a    *plan.Auth
	book *login.Book // nil = there is none
	up   *cluster    // nil = the console, for which nobody is asked
	ctx  context.Context
	role *roster.Role // what Postgres has said, if it was asked
}

// admit lets a client in, or says why not: a *wire.Error to be told. up is where it wants to
// go; nil is the console, which must work when Postgres does not.
func (px *Proxy) admit(conn net.Conn, c *login.Client, s *plan.Settings, up *cluster) error {
	ctx, cancel := context.WithTimeout(px.life, s.LoginTimeout)
	defer cancel()
	ca := &candidate{px: px, conn: conn, c: c, a: &s.Auth, book: px.bookOf(&s.Auth), up: up, ctx: ctx}
	q := ca.query()
	m, err := ca.method(q)
	if err != nil {
		return err
	}
	switch m.clientCert {
	case hba.VerifyCA:
		err = login.RequireCert(c)
	case hba.VerifyFull:
		if m.Method == login.Cert {
			err = login.RequireCert(c)
		} else {
			err = login.RequireCertOf(c)
		}
	}
	if err != nil {
		return err
	}
	if m.Method == login.Trust {
		return login.Authenticate(conn, c, m.Method, secretsOf(ca.book), px.cpu)
	}
	return ca.prove(m, q)
}

// secretsOf is a book that may be none.
func secretsOf(b *login.Book) login.Secrets {
	if b == nil {
		return nil
	}
	return b
}

// prove has the client prove who it is.
func (ca *candidate) prove(m method, q *hba.Query) error {
	who := door.GuesserOf(ca.conn)
	end, ok := ca.px.throttle.Begin(who, ca.c.User)
	if !ok {
		return tooManyFailures
	}
	var err error
	if m.Method == login.Cert || m.Method == login.Peer {
		err = login.Vouched(ca.conn, ca.c, m.Method, login.Voucher{Maps: ca.a.Maps, Map: m.mapName, Query: q, Secrets: secretsOf(ca.book)})
	} else {
		err = ca.password(m.Method)
	}
	e, told := errors.AsType[*wire.Error](err)
	if told && (e.Code == wire.CodeInvalidPassword || e.Code == wire.CodeInvalidAuthorization) {
		if ca.role != nil {
			ca.up.roster.Load().Doubt(ca.c.User)
		}
		return &guess{err, who, end}
	}
	end()
	return err
}

// password has the client prove that it knows its password.
func (ca *candidate) password(m login.Method) error {
	book := ca.book
	if book == nil {
		book = login.NewBook(nil)
	}
	var s login.Secrets = book
	if _, known := book.Lookup(ca.c.User); !known && ca.a.Query != "" && ca.up != nil {
		role, err := ca.lookup()
		if err != nil {
			return err
		}
		s = login.Guest{Book: book, User: ca.c.User, Secret: role.Password(time.Now())}
	}
	return login.Authenticate(ca.conn, ca.c, m, s, ca.px.cpu)
}

// method finds out how the client is to prove who it is.
func (ca *candidate) method(q *hba.Query) (method, error) {
	if ca.a.HBA == nil {
		m := method{Method: ca.a.Method, mapName: ca.a.Map}
		if m.Method == login.Cert {
			m.clientCert = hba.VerifyFull
		}
		return m, nil
	}
	r, err := ca.a.HBA.Match(q)
	switch {
	case err != nil:
		return method{}, err
	case r == nil:
		return method{}, refusedByHBA(`no pg_hba.conf entry for host "%s", user "%s", database "%s", %s`, q)
	}
	ca.px.ruleHits.Add(ca.a.HBA, r)
	if r.Method == hba.Reject {
		return method{}, refusedByHBA(`pg_hba.conf rejects connection for host "%s", user "%s", database "%s", %s`, q)
	}
	return method{login.Method(r.Method), r.Map, r.ClientCert}, nil
}

// refusedByHBA is what Postgres says.
func refusedByHBA(format string, q *hba.Query) *wire.Error {
	host, encryption := "[local]", "no encryption"
	if !q.Local {
		host = q.Addr.String()
	}
	if q.TLS {
		encryption = "SSL encryption"
	}
	e := session.Say("hba")
	e.Message = fmt.Sprintf(format, host, q.Role, q.Database, encryption)
	return e
}

// query is the client as rules and maps see it.
func (ca *candidate) query() *hba.Query {
	ip := door.IPOf(ca.conn.RemoteAddr())
	return &hba.Query{
		Local: !ip.IsValid(), Addr: ip, TLS: ca.c.TLS != nil, Database: ca.c.Database, Role: ca.c.User,
		Replication: wantsPhysical(&ca.c.Startup), Own: ownNetworks, MemberOf: ca.memberOf,
	}
}

// ownNetworks are this machine's addresses.
func ownNetworks() (list []netip.Prefix) {
	addrs, _ := net.InterfaceAddrs() // without them samehost and samenet are for nobody
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// memberOf asks whether the client's role is a member of a group.
func (ca *candidate) memberOf(group string) (bool, error) {
	if ca.up == nil {
		e := session.Say("hba")
		e.Message = "pgweir: a rule of the hba_file asks for groups before the console is allowed, and the console asks nothing of Postgres"
		e.Hint = "name the console's roles in rules before it, for the databases pgweir and pgbouncer"
		return false, e
	}
	role, err := ca.lookup()
	if err != nil {
		return false, err
	}
	return role.MemberOf(group), nil
}

// lookup asks what Postgres says of the client's role, once.
func (ca *candidate) lookup() (*roster.Role, error) {
	if ca.role != nil {
		return ca.role, nil
	}
	role, err := ca.up.roster.Load().Role(ca.ctx, ca.c.User)
	if err != nil {
		ca.px.noteUnasked(ca.up.name, err)
		return nil, unasked
	}
	ca.role = &role
	return ca.role, nil
}

var unasked = session.Say("auth_query")

// noteUnasked logs, now and then, why Postgres could not be asked about a role.
func (px *Proxy) noteUnasked(upstream string, err error) {
	px.turned.Note(px.o.Log, "auth_query "+upstream, time.Since(px.started).Nanoseconds(), "Postgres can't be asked about roles",
		"upstream", upstream, "error", err)
}

// guess is a login that has failed because of what the client knew or was.
type guess struct {
	error
	who door.Guesser
	end func()
}

// Unwrap returns the error that the client is told.
func (g *guess) Unwrap() error { return g.error }

var tooManyFailures = session.Say("login_failures")
