package proxy

import (
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire/scram"
)

// target is how to log in to a server of one key. Immutable.
type target struct {
	credentials login.Credentials
	passwords   upstream.Passwords // of the database's own role; nil = credentials
}

// target returns what the next logins for the client's key use: the credentials
// of the client that came last, because passwords change.
func (a *admitted) target(old any) any {
	if t, ok := old.(*target); ok && t.credentials == a.credentials && t.passwords == a.passwords {
		return t
	}
	return &target{a.credentials, a.passwords}
}

// credentials brings what the servers of a group's key log in with to what a reload says:
// who keeps its connections does not log in again to bring it along.
func (up *cluster) credentials(g *session.Group, s *plan.Settings) {
	t, ok := g.Key.Target.(*target)
	if !ok || !up.houses(s, g.Database, g.Role, g.Key) {
		return
	}
	db, _ := s.Route(g.Database)
	now := admitted{credentials: credentialsOf(s, g.Key.Role), passwords: db.Passwords}
	if g.Key.Role == g.Role && now.credentials == (login.Credentials{}) {
		now.credentials = t.credentials // what a client has proved
	}
	if next := now.target(t); next != g.Key.Target {
		g.Key.Target, g.Key.LogInAgain = next, false
	}
}

// bookOf is the book of the settings as its file has it now. What servers log in with is
// brought along when that has changed, as by a reload.
func (px *Proxy) bookOf(a *plan.Auth) *login.Book {
	before := a.Book.Known()
	book := a.Book.Current()
	if book != before {
		px.post(func(now int64) {
			s := px.settings.Load()
			for _, up := range px.upstreams {
				for _, g := range up.core.Groups() {
					up.credentials(g, s)
				}
				up.core.Forgive(now)
			}
		})
	}
	return book
}

// stale drops what a client has proved when the server does not take it: its role has another
// password by now. The next client that logs in brings another proof; until then nobody tries
// in vain. t is what was tried. Loop thread.
func (up *cluster) stale(k *session.KeyInfo, t *target) {
	if t == nil || t.passwords != nil {
		return
	}
	if r := up.roster.Load(); r != nil {
		r.Doubt(k.Role)
	}
	if k.Target == t && t.credentials.Password == "" && t.credentials.Keys != (scram.Keys{}) {
		k.Target, k.LogInAgain = &target{}, true
	}
}

// request is who to be on a server of a key. Loop thread.
func (up *cluster) request(k *session.KeyInfo) upstream.Request {
	o := up.o.Load()
	r := upstream.Request{Database: k.Database, Role: k.Role}
	if t, _ := k.Target.(*target); t != nil {
		r.Credentials, r.Passwords = t.credentials, t.passwords
	}
	if r.Credentials == (login.Credentials{}) && r.Passwords == nil && k.Role == o.Role {
		r.Credentials.Password = o.Password
	}
	return r
}
